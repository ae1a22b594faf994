"""`hubnmt evaluate` (BLEU and chrF) and `hubnmt score` (log-probability of translations)."""

import dataclasses
import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from hubnmt.cli.options import (
    AsJson,
    Model,
    Placement,
    Translating,
    in_chunks,
    print_note,
    progress_bar,
)
from hubnmt.errors import ConfigError
from hubnmt.text.textfile import read_aligned

if TYPE_CHECKING:
    from hubnmt import Translator
    from hubnmt.text.metrics import Scores
    from hubnmt.types import PairScore, Translation

DECODING_FACTS = ("guard", "fallbacks", "seconds", "tgt_tokens_per_s")
"""What `--json` states of decoding; None where the translations come from a file."""


def evaluate(
    reference: Annotated[
        Path, Option("--ref", metavar="FILE", help="reference translations, one per line")
    ],
    source: Annotated[
        Path | None, Option("--src", metavar="FILE", help="source sentences, with --model")
    ] = None,
    model: Annotated[
        str | None, Option(metavar="MODEL", help="bundled name, folder, or user/name")
    ] = None,
    hypothesis: Annotated[
        Path | None, Option("--hyp", metavar="FILE", help="score these instead of a model")
    ] = None,
    bootstrap: Annotated[
        bool, Option("--bootstrap", help="add a bootstrap confidence interval")
    ] = False,
    as_json: AsJson = False,
    *,
    placement: Placement,
    translating: Translating,
    **decoding: Any,
) -> None:
    """Compute BLEU and chrF of a model or a file."""
    from hubnmt.text.metrics import score_corpus

    if (model is None) == (hypothesis is None):
        raise ConfigError("give either --model MODEL with --src FILE, or --hyp FILE")
    if hypothesis:
        hypotheses, references = read_aligned(hypothesis, reference)
        facts: dict[str, Any] = dict.fromkeys(DECODING_FACTS)
    elif model and source:
        sources, references = read_aligned(source, reference)
        options = {**vars(translating), **decoding}
        hypotheses, facts = _decode(sources, placement.load(model), options)
    else:
        raise ConfigError("--model needs --src FILE")
    scores = score_corpus(hypotheses, references, bootstrap=bootstrap)
    _print_scores(scores, facts, as_json=as_json)


def _decode(
    sources: Sequence[str], translator: "Translator", options: dict[str, Any]
) -> tuple[list[str], dict[str, Any]]:
    """Return a model's translations, and `DECODING_FACTS`."""
    started = time.perf_counter()
    translations: list[Translation] = []
    with progress_bar(len(sources)) as bar:
        for chunk in in_chunks(sources):
            translations += translator.translate(chunk, **options)
            bar.update(len(chunk))
    seconds = time.perf_counter() - started
    counts = Counter(warning for found in translations for warning in set(found.warnings))
    for warning, n_lines in counts.most_common():
        share = 100 * n_lines / len(translations)
        print_note(f"{n_lines:,} of {len(translations):,} lines ({share:.2f} %): {warning}")
    n_fallbacks = sum(translation.n_fallbacks for translation in translations)
    n_tokens = sum(len(translation.tgt_tokens) for translation in translations)
    values = (options["guard"], n_fallbacks, seconds, n_tokens / seconds)
    texts = [translation.text for translation in translations]
    return texts, dict(zip(DECODING_FACTS, values, strict=True))


def _print_scores(scores: "Scores", decoding: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        facts = dataclasses.asdict(scores).items()
        values = {
            key.replace("_plus_plus", "++"): value for key, value in facts if value is not None
        }
        print(json.dumps(values | decoding))
        return
    interval = "" if scores.bleu_interval is None else f" ± {scores.bleu_interval:.2f}"
    print(f"BLEU   {scores.bleu:.2f}{interval}  {scores.bleu_signature}")
    print(f"chrF   {scores.chrf:.2f}  {scores.chrf_signature}")
    print(f"chrF++ {scores.chrf_plus_plus:.2f}  {scores.chrf_plus_plus_signature}")
    guard, n_fallbacks, seconds, speed = (decoding[name] for name in DECODING_FACTS)
    if seconds is not None:
        print(f"guard  {f'on, {n_fallbacks:,} decoded again' if guard else 'off'}")
        print(f"{scores.n:,} lines in {seconds:.1f} s, {speed:,.0f} target tokens/s")


def score(
    *,
    model: Model,
    source: Annotated[Path, Option("--src", metavar="FILE", help="source sentences")],
    target: Annotated[Path, Option("--tgt", metavar="FILE", help="their translations")],
    split: Annotated[bool, Option(help="score each sentence of a line separately")] = True,
    as_json: AsJson = False,
    placement: Placement,
) -> None:
    """Score given translations: log-probability and perplexity of each pair.

    A pair with an empty source has no score, but keeps its line.
    """
    sources, targets = read_aligned(source, target)
    translator = placement.load(model)
    with progress_bar(len(sources)) as bar:
        for chunk in in_chunks(enumerate(zip(sources, targets, strict=True), start=1)):
            pairs = [pair for _, pair in chunk if pair[0].strip()]
            sides = [src for src, _ in pairs], [tgt for _, tgt in pairs]
            scores = iter(translator.score(*sides, split=split))
            for number, (src, _) in chunk:
                if not src.strip():
                    note = f"line {number:,}: the source is empty, so its translation has no score"
                    print_note(note)
                pair_score = next(scores) if src.strip() else None
                print(_describe_score(pair_score, as_json=as_json))
            bar.update(len(chunk))


def _describe_score(score: "PairScore | None", *, as_json: bool) -> str:
    if not as_json:
        return f"{score.log_prob:.4f}\t{score.perplexity:.4f}" if score else "nan\tnan"
    values: dict[str, Any] = {"log_prob": None, "perplexity": None}
    values |= {"tgt_tokens": [], "tgt_log_probs": []}
    return json.dumps(dataclasses.asdict(score) if score else values, ensure_ascii=False)

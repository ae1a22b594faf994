"""`hubnmt evaluate` (BLEU and chrF) and `hubnmt score` (log-probability of translations)."""

import argparse
import dataclasses
import json
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from hubnmt.cli.options import (
    in_chunks,
    load_translator,
    translate_with,
)
from hubnmt.cli.progress import Progress
from hubnmt.errors import ConfigError, InputError
from hubnmt.text.metrics import Scores, score_corpus
from hubnmt.text.textfile import open_output, read_aligned
from hubnmt.types import PairScore, Translation


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Decoded:
    """Statistics of decoding; None where the translations come from a file."""

    guard: bool | None = None
    fallbacks: int | None = None
    """Parts for which fallback decoding ran."""
    seconds: float | None = None
    n_tokens: int = 0


NO_SCORE = PairScore(log_prob=math.nan, perplexity=math.nan, tgt_tokens=(), tgt_log_probs=())


def run_evaluate(options: argparse.Namespace) -> None:
    """Score a model's translations, or a file of them."""
    if options.save:
        _check_new(options.save)
    if (options.model is None) == (options.hyp is None):
        raise ConfigError("give either --model MODEL with --src FILE, or --hyp FILE")
    if options.hyp:
        hypotheses, references = read_aligned(options.hyp, options.ref)
        decoded = Decoded()
    else:
        if options.src is None:
            raise ConfigError("--model needs --src FILE")
        sources, references = read_aligned(options.src, options.ref)
        translate = translate_with(load_translator(options), options)
        started = time.perf_counter()
        translations = []
        with Progress(len(sources)) as bar:
            for chunk in in_chunks(sources):
                translations += translate(chunk)
                bar.update(len(chunk))
        decoded = Decoded(
            guard=options.guard,
            fallbacks=sum(translation.n_fallbacks for translation in translations),
            seconds=time.perf_counter() - started,
            n_tokens=sum(len(translation.tgt_tokens) for translation in translations),
        )
        _print_warnings(translations)
        hypotheses = [translation.text for translation in translations]
    scores = score_corpus(hypotheses, references, bootstrap=options.bootstrap)
    try:
        if options.save:
            with open_output(options.save, overwrite=False, carry_on=False) as (sink, _):
                sink.write("".join(f"{line}\n" for line in hypotheses).encode())
    finally:  # print the scores even if saving fails
        _print_scores(scores, decoded, as_json=options.json)


def _check_new(path: Path) -> None:
    """Check before translating that the output file can be created."""
    if os.path.lexists(path):
        raise InputError(f"--save: {path} exists; name another file")
    if not path.parent.is_dir():
        raise InputError(
            f"--save: there is no folder {path.parent}; create it, or name another file"
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise InputError(f"--save: {path.parent} cannot be written; name another folder")


def _print_warnings(translations: Sequence[Translation]) -> None:
    """Print to standard error how many lines have each warning."""
    counts = Counter(warning for each in translations for warning in set(each.warnings))
    for warning, n_lines in counts.most_common():
        share = 100 * n_lines / len(translations)
        summary = f"{n_lines:,} of {len(translations):,} lines ({share:.2f} %): {warning}"
        print(summary, file=sys.stderr)


def _print_scores(scores: Scores, decoded: Decoded, *, as_json: bool) -> None:
    seconds = decoded.seconds
    speed = decoded.n_tokens / seconds if seconds else None
    if as_json:
        values = {
            "n": scores.n,
            "bleu": scores.bleu,
            "bleu_signature": scores.bleu_signature,
            "chrf": scores.chrf,
            "chrf_signature": scores.chrf_signature,
            "chrf++": scores.chrf_plus_plus,
            "guard": decoded.guard,
            "fallbacks": decoded.fallbacks,
            "seconds": seconds,
            "tgt_tokens_per_s": speed,
        }
        if scores.bleu_interval is not None:
            values["bleu_interval"] = scores.bleu_interval
        print(json.dumps(values))
        return
    interval = "" if scores.bleu_interval is None else f" ± {scores.bleu_interval:.2f}"
    print(f"BLEU   {scores.bleu:.2f}{interval}  {scores.bleu_signature}")
    print(f"chrF   {scores.chrf:.2f}  {scores.chrf_signature}")
    print(f"chrF++ {scores.chrf_plus_plus:.2f}")
    if decoded.guard is not None:
        state = f"on, {decoded.fallbacks:,} decoded again" if decoded.guard else "off"
        print(f"guard  {state}")
    if seconds is not None:
        print(f"{scores.n:,} lines in {seconds:.1f} s, {speed:,.0f} target tokens/s")


def run_score(options: argparse.Namespace) -> None:
    """Print log-probability and perplexity of each pair, one line per pair.

    A pair with an empty source has no score, but keeps its line.
    """
    sources, targets = read_aligned(options.src, options.tgt)
    translator = load_translator(options)
    with Progress(len(sources)) as bar:
        for chunk in in_chunks(enumerate(zip(sources, targets, strict=True), start=1)):
            pairs = [pair for _, pair in chunk if pair[0].strip()]
            sides = [src for src, _ in pairs], [tgt for _, tgt in pairs]
            scores = iter(translator.score(*sides, split=options.split))
            for number, (src, _) in chunk:
                if not src.strip():
                    note = f"line {number:,}: the source is empty, so its translation has no score"
                    tqdm.write(note, file=sys.stderr)
                score = next(scores) if src.strip() else NO_SCORE
                print(_describe_score(score, as_json=options.json))
            bar.update(len(chunk))


def _describe_score(score: PairScore, *, as_json: bool) -> str:
    if not as_json:
        return f"{score.log_prob:.4f}\t{score.perplexity:.4f}"
    values = dataclasses.asdict(score)
    if score is NO_SCORE:  # JSON has no NaN
        values |= {"log_prob": None, "perplexity": None}
    return json.dumps(values, ensure_ascii=False)

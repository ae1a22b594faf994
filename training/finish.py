"""Turn a finished run into a model folder to publish: tune the decoding, evaluate, write the card.

    python -m training.finish RUN_DIR DEST

The validation and test sets are those of the run's recipe. Decoding defaults are tuned on the
validation set; each test set is translated once, with the tuned settings. The last weights
(`--weights last`) may be better with beam search than the best validated ones, and their mean with
the weights that the run started from better than either (`--share 0.7`: 0.7 of the run's). At the
end of a run `training.run.final_evaluation` does the same for `best/` with the recipe's settings.
"""

import dataclasses
import itertools
import json
import logging
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import torch
from tqdm.contrib.logging import logging_redirect_tqdm

from hubnmt.attention.maps import TokenSpans
from hubnmt.attention.replay import attend
from hubnmt.checkpoint.card import write_card
from hubnmt.checkpoint.files import check_destination, read_json
from hubnmt.checkpoint.folder import StoredModel, load_model, save_model
from hubnmt.config import DecodingConfig
from hubnmt.errors import InputError
from hubnmt.model.transformer import Transformer
from hubnmt.text.metrics import score_corpus
from hubnmt.translator import Translator
from training.command import add_overrides, make_parser, progress_bar, run_command
from training.config.recipe import load_recipe
from training.config.run import RunConfig
from training.data.corpora import read_tests, read_valid
from training.run.final_evaluation import add_measured, push_command
from training.run.finetune import load_pretrained
from training.run.report import copy_records, facts_of_run
from training.run.run_dir import KeptModel
from training.run.validation import HeldOutPairs, decode_pairs, encode_pairs, read_validation

log = logging.getLogger("training")

BEAM_SIZES = (1, 4, 8)
LENGTH_PENALTIES = (0.6, 1.0, 1.4, 2.0)
NOISE = 0.1
"""BLEU that decides between settings; far below the resolution of the validation set."""


def finish(
    run_dir: Path,
    dest: Path,
    *,
    overrides: Sequence[str] = (),
    half: bool = False,
    weights: KeptModel = "best",
    share: float = 1.0,
    max_beam: int = max(BEAM_SIZES),
    device: str = "auto",
) -> None:
    """Tune on the validation set, evaluate on the test sets, write the model folder and its card.

    The model has `share` of the run's weights, the rest are those of the model it started from.

    Raises:
        HubNMTError: if the run, a file or the destination cannot be used; checked first.
    """
    # 1. Read all that is needed, so that a mistake shows before the work.
    check_destination(dest)
    recipe = load_recipe(read_json(run_dir / "recipe.json"), overrides)
    data, stored = recipe.data, load_model(run_dir / weights)
    averaged = average_with_pretrained(stored.model, recipe.run, share)
    validation = read_validation(run_dir / weights)
    if validation is None:
        raise InputError(f"{run_dir}: no validation yet; resume the run")
    facts = facts_of_run(
        run_dir, validation, name=dest.name, config=stored.model.config, weights=weights
    )
    tests, valid = read_tests(data), read_valid(data)
    if not valid:
        raise InputError(f"{run_dir}: its validation set is empty: --set data.valid=SRC,REF")
    # 2. Choose alignment head, beam size and length penalty, with the weights as stored.
    dtype = torch.float16 if half else torch.float32
    with torch.no_grad():
        for parameter in stored.model.parameters():
            parameter.copy_(parameter.to(dtype))
    translator = Translator(stored, device=device)
    pairs = encode_pairs(translator, valid)
    aligned = store_alignment_head(stored, translator, pairs)
    trials = try_decoding(Translator(stored, device=device), pairs, max_beam)
    decoding = choose_decoding({trial: bleu for trial, (bleu, _) in trials.items()})
    # 3. Measure, once.
    stored = dataclasses.replace(stored, decoding=decoding, dtype=dtype)
    texts = trials[decoding][1]
    facts = add_measured(facts, Translator(stored, device=device), pairs, texts, tests)
    # 4. Write the folder.
    stored_as = {"weights stored as": "float16" if half else "float32"}
    training = {**facts.training, **averaged, **aligned, **stored_as}
    facts = dataclasses.replace(facts, config=stored.model.config, training=training)
    save_model(dest, dataclasses.replace(stored, card=write_card(facts)))
    copy_records(run_dir, dest)
    records = [
        {"beam_size": trial.beam_size, "length_penalty": trial.length_penalty, "bleu": bleu}
        for trial, (bleu, _) in trials.items()
    ]
    (run_dir / "tuning.json").write_text(json.dumps(records, indent=1), encoding="utf-8")
    log.info("the model is in %s; to publish it:", dest)
    log.info("  %s", push_command(dest, name=dest.name))


def average_with_pretrained(model: Transformer, run: RunConfig, share: float) -> dict[str, str]:
    """Keep `share` of the weights, the rest from the pretrained model; return the card's entry.

    Source: Wortsman et al. 2022, https://arxiv.org/abs/2109.01903
    """
    if share == 1:
        return {}
    if not (0 < share < 1 and run.pretrained and run.pretrained_part == "model"):
        raise InputError("--share is above 0 and at most 1, for a run from a whole run.pretrained")
    before = load_pretrained(run.pretrained).weights
    for name, weight in model.named_parameters():  # a tied one once
        if name not in before or before[name].shape != weight.shape:
            raise InputError(f"{run.pretrained} is not what the run started from: {name} differs")
        weight.data.lerp_(before[name], 1 - share)
    rest = f"{1 - share:g} of those that the run started from (https://arxiv.org/abs/2109.01903)"
    scored = "validation scores and curves are of the run's weights alone"
    return {"averaged": f"{share:g} of these weights and {rest}; {scored}"}


def try_decoding(
    translator: Translator, pairs: HeldOutPairs, max_beam: int
) -> dict[DecodingConfig, tuple[float, list[str]]]:
    """Return BLEU and translations of the validation set for beam sizes and length penalties."""
    trials = {}
    beam_sizes = [size for size in BEAM_SIZES[1:] if size <= max_beam]
    grid = [(1, 1.0), *itertools.product(beam_sizes, LENGTH_PENALTIES)]
    with logging_redirect_tqdm():
        for beam_size, length_penalty in progress_bar("tuning", iterable=grid, unit=" settings"):
            decoding = dataclasses.replace(
                translator.decoding, beam_size=beam_size, length_penalty=length_penalty, n_best=1
            )
            texts = decode_pairs(translator, pairs, decoding)
            bleu = score_corpus(texts, pairs.references).bleu
            trials[decoding] = bleu, texts
            log.info("beam %d, length penalty %.1f: BLEU %.2f", beam_size, length_penalty, bleu)
    return trials


def choose_decoding(trials: dict[DecodingConfig, float]) -> DecodingConfig:
    """Return the smallest beam, then the median length penalty, within `NOISE` of the best BLEU.

    A wider beam makes every translation slower. Of length penalties that are equally good, the
    middle one is the safest for other text.
    """
    good = [trial for trial, bleu in trials.items() if bleu >= max(trials.values()) - NOISE]
    beam_size = min(trial.beam_size for trial in good)
    same = [trial for trial in good if trial.beam_size == beam_size]
    same.sort(key=lambda trial: trial.length_penalty)
    return same[(len(same) - 1) // 2]


# --- the alignment head ---------------------------------------------------------------------------

MAX_PAIRS = 1_000
"""Pairs to align and to evaluate on; more would change little."""

Link = tuple[int, int]
"""(target word, source word), counted from 0."""


class HeadScore(NamedTuple):
    """The best head and its alignment accuracy."""

    head: tuple[int, int]
    """(decoder layer, head)."""
    shift: Literal[0, 1]
    """0 to align by the step that generates the word, 1 by the next; see `ModelConfig`."""
    accuracy: float
    """Share of links predicted correctly, 0 to 1."""
    n_links: int


def store_alignment_head(
    stored: StoredModel, translator: Translator, pairs: HeldOutPairs
) -> dict[str, str]:
    """Store the head that aligns best in the model's config; return the entry for its card."""
    best = choose_head(translator, pairs)
    if best is None:
        return {}
    stored.model.config = dataclasses.replace(
        stored.model.config, alignment_head=best.head, alignment_shift=best.shift
    )
    layer, head = best.head
    when = "one step after a word was generated" if best.shift else "while a word is generated"
    entry = (
        f"layer {layer}, head {head} (from 0), {when}: agrees with {100 * best.accuracy:.1f} % of "
        f"{best.n_links:,} word links of the validation set (`training/finish.py`)"
    )
    log.info("alignment head: %s", entry)
    return {"alignment head": entry}


def choose_head(translator: Translator, pairs: HeldOutPairs) -> HeadScore | None:
    """Find the cross-attention head that aligns words best; None if there is no reference link.

    The reference links come from co-occurrence, not from the model. A head's score is the share of
    linked target words for which its attention is largest on the linked source word, either at the
    step that generates the word or one step later, when it is the decoder's input: lower layers
    often align there (Chen et al. 2020, https://arxiv.org/abs/2004.14837).
    """
    # 1. Find the source word that each head looks at most for each target word.
    sources, targets, most_attended = [], [], []
    for src, tgt in [(src, tgt) for src, tgt in pairs.ids if src and tgt][:MAX_PAIRS]:
        maps = attend(translator.model, src, tgt, translator.tokenizers)
        words = [maps.shifted(shift).by_word() for shift in (0, 1)]
        cross = torch.stack([shifted.cross for shifted in words])
        most_attended.append(cross.argmax(-1))  # (2, L, H, T)
        sources.append(_words_of(words[0].src))
        targets.append(_words_of(words[0].tgt))
    # 2. Count how often it is the linked one.
    links = link_words(sources, targets)
    n_links = sum(map(len, links))
    if not n_links:
        return None
    n_right = torch.zeros(2, translator.config.n_decoder_layers, translator.config.n_heads)
    for looked_at, pair_links in zip(most_attended, links, strict=True):
        for target, source in pair_links:
            n_right += looked_at[..., target] == source
    accuracies = n_right / n_links  # (2, L, H)
    shift, layer, head = (accuracies == accuracies.max()).nonzero()[0].tolist()
    return HeadScore((layer, head), shift, float(accuracies[shift, layer, head]), n_links)


def link_words(
    sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]
) -> list[list[Link]]:
    """Return the links between words that are each other's most associated word of the pair.

    The association is Dice's coefficient over all pairs, times a factor of 1 on the diagonal and
    of 1/2 far from it, which decides between equal words.
    Source: Melamed 2000, section 3, https://aclanthology.org/J00-2004
    """
    n_src, n_tgt, n_both = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for src, tgt in zip(sources, targets, strict=True):
        n_src.update(set(src))
        n_tgt.update(set(tgt))
        n_both.update(itertools.product(set(src), set(tgt)))
    links = []
    for src, tgt in zip(sources, targets, strict=True):
        dice = [[2 * n_both[s, t] / (n_src[s] + n_tgt[t]) for s in src] for t in tgt]
        tgt_places, src_places = (
            torch.arange(len(words)).add(0.5) / len(words) for words in (tgt, src)
        )
        distance = (tgt_places[:, None] - src_places).abs()  # (T, S)
        scores = torch.tensor(dice) * (1 - distance / 2)
        is_best = scores == scores.amax(1, keepdim=True)
        links.append((is_best & (scores == scores.amax(0))).nonzero().tolist())
    return links


def _words_of(words: TokenSpans) -> list[str]:
    tokens = [token.strip().casefold() for token in words.tokens]
    return [token for n, token in enumerate(tokens) if not words.is_special(n)]


# --- the command ---------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status, see `run_command`."""
    parser = make_parser("finish", __doc__)
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("dest", type=Path)
    add_overrides(parser)
    parser.add_argument("--weights", choices=get_args(KeptModel), default="best", help="of the run")
    parser.add_argument("--share", type=float, default=1.0, help="of the run in that mean, 0 to 1")
    parser.add_argument("--max-beam", type=int, default=max(BEAM_SIZES), help="widest beam to try")
    parser.add_argument("--half", action="store_true", help="store weights as float16")
    parser.add_argument(
        "--device", default="auto", help="auto (a GPU if there is one), cpu, cuda, cuda:1, ..."
    )
    options = parser.parse_args(arguments)
    return run_command(lambda: finish(**vars(options)))


if __name__ == "__main__":
    sys.exit(main())

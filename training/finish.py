"""Turn a finished run into a model folder to publish: tune the decoding, evaluate, write the card.

    python -m training.finish RUN_DIR DEST --valid SRC,REF [--half] [--weights last]
        [--device cuda]
        [--test SRC,REF --test-name NAME --test-dataset HUB_NAME]...

SRC,REF are files as in a recipe: two text files or one table, optionally compressed (.gz); more
pairs may follow. The weights are the best by greedy validation BLEU, or the last, which may be
better with beam search. Decoding defaults are tuned on the validation set; each test set is
translated once, with the tuned settings.
"""

import dataclasses
import itertools
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import torch
from tqdm import tqdm

from hubnmt.checkpoint.card import CardFacts, write_card
from hubnmt.checkpoint.description import check_place
from hubnmt.checkpoint.files import read_json
from hubnmt.checkpoint.folder import StoredModel, load_model, save_model
from hubnmt.config import DecodingConfig, ModelConfig
from hubnmt.errors import ConfigError
from hubnmt.model import Transformer
from hubnmt.text.metrics import score_corpus
from hubnmt.translator import Translator
from training.command import make_parser, run_command
from training.config.data import CorpusConfig, group_files
from training.data.corpora import read_sides
from training.distributed import pick_device
from training.release.alignment_head import choose_head
from training.release.measure import add_examples, add_test
from training.release.records import add_records
from training.run.card_facts import facts_of_run
from training.run.run_dir import Weights
from training.run.validation import HeldOutPairs, decode_pairs, encode_pairs

log = logging.getLogger("training")

BEAM_SIZES = (1, 4, 8)
LENGTH_PENALTIES = (0.6, 1.0, 1.4, 2.0)
NOISE = 0.1
"""BLEU that a wider beam must gain; far below the resolution of the validation set."""


@dataclasses.dataclass(frozen=True, slots=True)
class TestSet:
    """A test set, translated once at the end."""

    __test__ = False  # not a pytest class

    files: tuple[str, ...]
    """As in a recipe: line-aligned source and reference, or a table of both."""
    name: str = "test"
    """Name on the card, such as `Multi30k test_2016_flickr`."""
    dataset: str = ""
    """Origin, preferably a dataset name on the Hub; empty means the recipe's first dataset."""


def tune_decoding(
    translator: Translator, pairs: HeldOutPairs
) -> tuple[DecodingConfig, list[dict[str, float]]]:
    """Search beam size and length penalty by BLEU on the validation set.

    Returns:
        the chosen decoding defaults, and all trials.
    """
    trials = []
    grid = [(1, 1.0), *itertools.product(BEAM_SIZES[1:], LENGTH_PENALTIES)]
    for beam_size, length_penalty in tqdm(grid, unit="setting", file=sys.stderr):
        decoding = dataclasses.replace(
            translator.decoding, beam_size=beam_size, length_penalty=length_penalty, n_best=1
        )
        scores = score_corpus(decode_pairs(translator, pairs, decoding), pairs.references)
        trials.append(
            {"beam_size": beam_size, "length_penalty": length_penalty, "bleu": scores.bleu}
        )
        log.info("beam %d, length penalty %.1f: BLEU %.2f", beam_size, length_penalty, scores.bleu)
    best = choose_trial(trials)
    chosen = dataclasses.replace(
        translator.decoding,
        beam_size=int(best["beam_size"]),
        length_penalty=best["length_penalty"],
        n_best=1,
    )
    return chosen, trials


def choose_trial(trials: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the trial with the smallest beam whose BLEU is within `NOISE` of the best.

    A wider beam makes every translation slower.
    """
    goal = max(trial["bleu"] for trial in trials) - NOISE
    good = [trial for trial in trials if trial["bleu"] >= goal]
    return min(good, key=lambda trial: (trial["beam_size"], -trial["bleu"]))


def store_alignment_head(
    stored: StoredModel, translator: Translator, pairs: HeldOutPairs
) -> dict[str, str]:
    """Store the attention head that aligns best on the validation set in the model's config.

    Returns:
        the entry for the model card.
    """
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
        f"{best.n_links:,} word links of the validation set (`training/release/alignment_head.py`)"
    )
    log.info("alignment head: %s", entry)
    return {"alignment head": entry}


def finish(
    run_dir: Path,
    dest: Path,
    *,
    valid: tuple[str, ...],
    tests: Sequence[TestSet] = (),
    half: bool = False,
    weights: Weights = "best",
    device: str = "auto",
) -> CardFacts:
    """Tune on the validation set, evaluate on the test sets, write the model folder and its card.

    Raises:
        HubNMTError: if the run, a file or the destination cannot be used; checked first.
    """
    check_place(dest)
    where = pick_device(device, setting="--device")
    stored = load_model(run_dir / weights)
    facts = facts_of_run(run_dir, name=dest.name, config=stored.model.config, weights=weights)
    test_texts = [_read(test.files, run_dir, stored.model.config) for test in tests]
    valid_texts = _read(valid, run_dir, stored.model.config)
    if half:  # evaluate the weights as stored
        round_to_half(stored.model)
    translator = Translator(stored, device=str(where))
    pairs = encode_pairs(translator, *valid_texts)
    aligned = store_alignment_head(stored, translator, pairs)
    translator = Translator(stored, device=str(where))  # with the alignment head
    decoding, trials = tune_decoding(translator, pairs)
    stored_as = {"weights stored as": "float16" if half else "float32"}
    facts = dataclasses.replace(
        add_examples(facts, translator, pairs, decoding=decoding),
        config=stored.model.config,
        training={**facts.training, **aligned, **stored_as},
    )
    for test, texts in zip(tests, test_texts, strict=True):
        named = {"name": test.name, "dataset": test.dataset}
        pairs = encode_pairs(translator, *texts)
        facts = add_test(facts, translator, pairs, **named, decoding=decoding)
    dtype = torch.float16 if half else torch.float32
    final = dataclasses.replace(stored, decoding=decoding, card=write_card(facts), dtype=dtype)
    save_model(dest, final)
    add_records(run_dir, dest)
    (run_dir / "tuning.json").write_text(json.dumps(trials, indent=1), encoding="utf-8")
    return facts


def _read(
    files: tuple[str, ...], run_dir: Path, config: ModelConfig
) -> tuple[list[str], list[str]]:
    """Read sources and references with the column names of the run's recipe."""
    data = read_json(run_dir / "recipe.json")["data"]
    columns = {name: data.get(name) for name in ("src_column", "tgt_column")}
    corpus = CorpusConfig(files=files, **columns)
    return read_sides(corpus, src_lang=config.src_lang, tgt_lang=config.tgt_lang)


def round_to_half(model: Transformer) -> None:
    """Round the weights to float16 precision, in place."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.half())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status, see `run_command`."""
    parser = make_parser("finish", __doc__)
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("dest", type=Path)
    parser.add_argument("--valid", required=True, metavar="SRC,REF")
    parser.add_argument(
        "--test", action="append", default=[], metavar="SRC,REF", help="may be repeated"
    )
    parser.add_argument("--test-name", action="append", default=[], metavar="NAME")
    parser.add_argument("--test-dataset", action="append", default=[], metavar="HUB_NAME")
    parser.add_argument(
        "--weights",
        choices=get_args(Weights),
        default="best",
        help="which weights of the run (default: best)",
    )
    parser.add_argument("--half", action="store_true", help="store weights as float16")
    parser.add_argument(
        "--device", default="auto", help="auto (a GPU if there is one), cpu, cuda, cuda:1, ..."
    )
    options = parser.parse_args(arguments)

    def work() -> None:
        finish(
            options.run_dir,
            options.dest,
            valid=_files(options.valid),
            tests=_test_sets(options.test, options.test_name, options.test_dataset),
            half=options.half,
            weights=options.weights,
            device=options.device,
        )

    return run_command(work)


def _test_sets(pairs: list[str], names: list[str], datasets: list[str]) -> list[TestSet]:
    """Combine the options of each test set, in order."""
    for option, values in (("--test-name", names), ("--test-dataset", datasets)):
        if len(values) > len(pairs) or (len(pairs) > 1 and 0 < len(values) < len(pairs)):
            raise ConfigError(f"{len(pairs)} --test and {len(values)} {option}: give one each")
    if len(pairs) > 1 and not names:
        raise ConfigError(f"{len(pairs)} --test require one --test-name each")
    columns = itertools.zip_longest(map(_files, pairs), names, datasets)
    return [TestSet(files, name or "test", dataset or "") for files, name, dataset in columns]


def _files(text: str) -> tuple[str, ...]:
    """Split a comma-separated list of files, and check that text files come in pairs."""
    files = tuple(text.split(","))
    group_files(files)
    return files


if __name__ == "__main__":
    sys.exit(main())

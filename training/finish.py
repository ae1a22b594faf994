"""Turn a finished run into a model folder to publish: tune the decoding, evaluate, write the card.

    python -m training.finish RUN_DIR DEST

The validation and test sets are those of the run's recipe. Decoding defaults are tuned on the
validation set; each test set is translated once, with the tuned settings. The last weights
(`--weights last`) may be better with beam search than the best validated ones. At the end of a run
`finish_untuned` does the same for `best/` with the decoding settings of the recipe.
"""

import dataclasses
import itertools
import json
import logging
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import torch
from tqdm.contrib.logging import logging_redirect_tqdm

from hubnmt.checkpoint.card import write_card
from hubnmt.checkpoint.files import CARD, check_place, read_json
from hubnmt.checkpoint.folder import StoredModel, load_model, save_model
from hubnmt.config import DecodingConfig
from hubnmt.errors import HubNMTError, InputError
from hubnmt.text.metrics import score_corpus
from hubnmt.translator import Translator
from training.command import make_parser, progress_bar, run_command
from training.config.recipe import load_recipe
from training.data.corpora import read_tests, read_valid
from training.distributed import pick_device
from training.files import replace_text
from training.release.alignment_head import choose_head
from training.release.measure import add_measured, explain_failure
from training.run.card_facts import facts_of_run
from training.run.report import add_records, peak_memory_mib
from training.run.run_dir import Weights, read_validation
from training.run.trainer import Run
from training.run.validation import HeldOutPairs, decode_pairs, encode_pairs

log = logging.getLogger("training")

BEAM_SIZES = (1, 4, 8)
LENGTH_PENALTIES = (0.6, 1.0, 1.4, 2.0)
NOISE = 0.1
"""BLEU that a wider beam must gain; far below the resolution of the validation set."""
N_EXAMPLES = 500
"""Validation pairs from which `finish_untuned` picks the good and bad examples of the card."""


def finish(
    run_dir: Path,
    dest: Path,
    *,
    overrides: Sequence[str] = (),
    half: bool = False,
    weights: Weights = "best",
    device: str = "auto",
) -> None:
    """Tune on the validation set, evaluate on the test sets, write the model folder and its card.

    Raises:
        HubNMTError: if the run, a file or the destination cannot be used; checked first.
    """
    # 1. Read all that is needed, so that a mistake shows before the work.
    check_place(dest)
    where = str(pick_device(device, setting="--device"))
    data = load_recipe(read_json(run_dir / "recipe.json"), overrides).data
    stored = load_model(run_dir / weights)
    facts = facts_of_run(run_dir, name=dest.name, config=stored.model.config, weights=weights)
    tests, valid = read_tests(data), read_valid(data)
    if not valid:
        raise InputError(f"{run_dir}: its validation set is empty: --set data.valid=SRC,REF")
    # 2. Choose alignment head, beam size and length penalty, with the weights as stored.
    dtype = torch.float16 if half else torch.float32
    with torch.no_grad():
        for parameter in stored.model.parameters():
            parameter.copy_(parameter.to(dtype))
    translator = Translator(stored, device=where)
    pairs = encode_pairs(translator, *zip(*valid, strict=True))
    aligned = store_alignment_head(stored, translator, pairs)
    trials = try_decoding(Translator(stored, device=where), pairs)
    decoding = choose_decoding({trial: bleu for trial, (bleu, _) in trials.items()})
    # 3. Measure, once.
    stored = dataclasses.replace(stored, decoding=decoding, dtype=dtype)
    texts = trials[decoding][1]
    facts = add_measured(facts, Translator(stored, device=where), pairs, texts, tests)
    # 4. Write the folder.
    stored_as = {"weights stored as": "float16" if half else "float32"}
    training = {**facts.training, **aligned, **stored_as}
    facts = dataclasses.replace(facts, config=stored.model.config, training=training)
    save_model(dest, dataclasses.replace(stored, card=write_card(facts)))
    add_records(run_dir, dest)
    records = [
        {"beam_size": trial.beam_size, "length_penalty": trial.length_penalty, "bleu": bleu}
        for trial, (bleu, _) in trials.items()
    ]
    (run_dir / "tuning.json").write_text(json.dumps(records, indent=1), encoding="utf-8")
    log.info("the model is in %s; to publish it:", dest)
    log.info("  %s", push_command(dest, name=dest.name))


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
        f"{best.n_links:,} word links of the validation set (`training/release/alignment_head.py`)"
    )
    log.info("alignment head: %s", entry)
    return {"alignment head": entry}


def try_decoding(
    translator: Translator, pairs: HeldOutPairs
) -> dict[DecodingConfig, tuple[float, list[str]]]:
    """Return BLEU and translations of the validation set for beam sizes and length penalties."""
    trials = {}
    grid = [(1, 1.0), *itertools.product(BEAM_SIZES[1:], LENGTH_PENALTIES)]
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
    """Return the settings with the smallest beam of those within `NOISE` of the best BLEU.

    A wider beam makes every translation slower.
    """
    good = [trial for trial, bleu in trials.items() if bleu >= max(trials.values()) - NOISE]
    return min(good, key=lambda trial: (trial.beam_size, -trials[trial]))


def push_command(folder: Path, *, name: str) -> str:
    """Return the command that pushes a model folder; a new repository is private."""
    return shlex.join(["hubnmt", "push", str(folder), f"USER/{name}", "--private"])


# --- the end of a run ----------------------------------------------------------------------------


def finish_untuned(run: Run) -> None:
    """Evaluate `best/` on the recipe's test sets, write its card, and say what to do next.

    A test set that cannot be used is only reported: the run has ended, and its model is stored.
    """
    folder, best = run.folder, run.folder / "best"
    record = read_validation(best)
    if record is None:
        log.info("no validation yet, so there is no best model; resume the run")
        return
    log.info(
        "best validation BLEU %.2f  chrF %.2f at step %d; peak memory %.0f MiB",
        *(record["bleu"], record["chrf"], record["step"]),
        peak_memory_mib(run.group.device),
    )
    # 1. Measure.
    stored, data = load_model(best), run.config.data
    translator = Translator(stored, device=str(run.group.device))
    pairs = encode_pairs(translator, *zip(*run.corpus.valid[:N_EXAMPLES], strict=True))
    texts = decode_pairs(translator, pairs, translator.decoding)
    facts = facts_of_run(folder, name=folder.name, config=stored.model.config)
    try:
        tests = read_tests(data)
    except HubNMTError as error:
        log.warning("no test scores: %s", error)
        tests = []
    facts = add_measured(facts, translator, pairs, texts, tests)
    # 2. Compare with translations that need no model; copies may be the task.
    failure = explain_failure(record, run.corpus.valid, with_copies=data.drop_copies)
    # 3. Write the card and the record of the run.
    facts = dataclasses.replace(facts, limits=" ".join(filter(None, (failure, facts.limits))))
    replace_text(best / CARD, write_card(facts))
    log.info("model card: %s", best / CARD)
    add_records(folder, best)
    _log_next_commands(run, record, failure)


def _log_next_commands(run: Run, record: dict[str, Any], failure: str) -> None:
    folder, settings = run.folder, run.config.run
    if failure:
        longer = f"run.max_steps={10 * settings.max_steps}"
        if settings.max_minutes is not None and run.progress.step < settings.max_steps:
            longer = f"run.max_minutes={10 * settings.max_minutes:g}"
        words = ["python", "-m", "training.train", "--resume", str(folder), "--set", longer]
        log.warning("%s Its translations are in %s.", failure, folder / "samples.md")
        log.info("it needs more time, or more pairs:\n  %s", shlex.join(words))
    elif record["step"] == 0:
        log.warning(
            "no validation improved on the pretrained model, whose weights are in best/: try a "
            "lower optimizer.lr, more steps or more pairs"
        )
    else:
        dest = Path("models") / folder.name
        words = ["python", "-m", "training.finish", str(folder), str(dest)]
        log.info("to publish it as it is:\n  %s", push_command(folder / "best", name=folder.name))
        log.info("to tune beam size and length penalty first (minutes):\n  %s", shlex.join(words))


# --- the command ---------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status, see `run_command`."""
    parser = make_parser("finish", __doc__)
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("dest", type=Path)
    parser.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="override a setting of the recipe, such as data.test",
    )
    parser.add_argument("--weights", choices=get_args(Weights), default="best", help="of the run")
    parser.add_argument("--half", action="store_true", help="store weights as float16")
    parser.add_argument(
        "--device", default="auto", help="auto (a GPU if there is one), cpu, cuda, cuda:1, ..."
    )
    options = parser.parse_args(arguments)
    return run_command(lambda: finish(**vars(options)))


if __name__ == "__main__":
    sys.exit(main())

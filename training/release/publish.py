"""The end of a run: test scores, a model card in `best/`, and next steps.

The decoding settings are those of the recipe; `training.finish` tunes them.
"""

import dataclasses
import logging
import math
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from hubnmt.checkpoint.card import write_card
from hubnmt.checkpoint.files import (
    BOARD,
    CARD,
    MAX_BOARD_MIB,
    MAX_RECORD_MIB,
    METRICS,
    SAMPLES,
)
from hubnmt.checkpoint.folder import load_model
from hubnmt.errors import HubNMTError
from hubnmt.translator import Translator
from training.data.corpora import name_tests, read_test
from training.files import replace_text, reporting_full_disk
from training.release.measure import add_examples, add_test, explain_failure
from training.run.card_facts import facts_of_run
from training.run.report import peak_memory_mib
from training.run.run_dir import read_validation
from training.run.trainer import Run
from training.run.validation import encode_pairs

log = logging.getLogger("training")

N_EXAMPLES = 500
"""Validation pairs from which the card's good and bad examples are picked."""


def publish_run(run: Run) -> None:
    """Evaluate the best weights on the recipe's test sets and write their card.

    A test set that cannot be used is skipped with a warning.
    """
    folder, device, best = run.folder, run.group.device, run.folder / "best"
    record = read_validation(best)
    if run.best is None or record is None:
        log.info("no validation yet, so there is no best model; resume the run")
        return
    log.info(
        "best validation BLEU %.2f  chrF %.2f at step %d; peak memory %.0f MiB",
        *(record["bleu"], record["chrf"], record["step"]),
        peak_memory_mib(device),
    )
    # 1. Measure.
    stored = load_model(best)
    facts = facts_of_run(folder, name=folder.name, config=stored.model.config)
    translator, data = Translator(stored, device=str(device)), run.config.data
    decoding = translator.decoding
    pairs = encode_pairs(translator, *zip(*run.corpus.valid[:N_EXAMPLES], strict=True))
    facts = add_examples(facts, translator, pairs, decoding=decoding)
    for name, test in name_tests(data):
        dataset = None if test.files else test.dataset
        try:
            sides = read_test(test, data)
            facts = add_test(
                facts, translator, sides, name=name, dataset=dataset, decoding=decoding
            )
        except HubNMTError as error:
            log.warning("no scores on %s: %s", name, error)
    # 2. Compare with translations that need no model; copies may be the task.
    failure = explain_failure(record, run.corpus.valid, with_copies=data.drop_copies)
    # 3. Write the card and the record of the run.
    facts = dataclasses.replace(facts, limits=" ".join(filter(None, (failure, facts.limits))))
    replace_text(best / CARD, write_card(facts))
    log.info("model card: %s", best / CARD)
    add_records(folder, best)
    # 4. Say what to do next.
    if failure:
        log.warning("%s", failure)
        lines = _next_after_failure(run)
    elif record["step"] == 0:
        log.warning("no validation improved on the pretrained model: best/ holds its weights")
        lines = iter(["try a lower optimizer.lr, more steps or more pairs"])
    else:
        lines = next_commands(folder)
    for line in lines:
        log.info("%s", line)


def _next_after_failure(run: Run) -> Iterator[str]:
    """Yield what to do with a model that is not worth sharing."""
    samples, settings = run.folder / "samples.md", run.config.run
    yield f"its translations are in {samples}; it needs more time, or more pairs:"
    longer = f"run.max_steps={10 * settings.max_steps}"
    if settings.max_minutes is not None and run.progress.step < settings.max_steps:
        longer = f"run.max_minutes={10 * settings.max_minutes:g}"
    words = ["python", "-m", "training.train", "--resume", str(run.folder), "--set", longer]
    yield "  " + shlex.join(words)


def next_commands(folder: Path) -> Iterator[str]:
    """Yield the commands to run next, with the known arguments filled in."""
    yield "to publish the model as it is:"
    yield "  " + push_command(folder / "best", name=folder.name)
    dest = Path("models") / folder.name
    yield "to tune beam size and length penalty first (minutes), evaluate again and publish:"
    yield "  " + shlex.join(["python", "-m", "training.finish", str(folder), str(dest)])
    yield "  " + push_command(dest, name=folder.name)


def push_command(folder: Path, *, name: str) -> str:
    """Return the command that pushes a model folder; a new repository is private."""
    return shlex.join(["hubnmt", "push", str(folder), f"USER/{name}", "--private"])


# --- the record of the run -----------------------------------------------------------------------


def add_records(run_dir: Path, model_folder: Path) -> None:
    """Copy metrics, sample translations and TensorBoard events of a run into a model folder.

    Metrics and samples above the limit are subsampled evenly, larger events are left out.
    """
    limit = MAX_RECORD_MIB * 2**20
    if (run_dir / METRICS).is_file():
        lines = (run_dir / METRICS).read_text(encoding="utf-8").splitlines(keepends=True)
        replace_text(model_folder / METRICS, _subsample(lines, limit))
    if (run_dir / SAMPLES).is_file():
        text = (run_dir / SAMPLES).read_text(encoding="utf-8")
        head, *tables = re.split(r"(?m)^(?=## Step )", text)
        replace_text(model_folder / SAMPLES, head + _subsample(tables, limit - len(head.encode())))
    files = sorted((run_dir / "tensorboard").glob("*tfevents*"))
    if files and sum(file.stat().st_size for file in files) <= MAX_BOARD_MIB * 2**20:
        target = model_folder / BOARD
        with reporting_full_disk(target):
            target.parent.mkdir(exist_ok=True)
            # Event files are sequences of records, so they can be joined.
            target.write_bytes(b"".join(file.read_bytes() for file in files))


def _subsample(parts: Sequence[str], limit: int) -> str:
    """Join every n-th part, the last included, so that they fit into a number of bytes."""
    size = sum(len(part.encode()) for part in parts)
    n = max(1, math.ceil(size / limit))
    while n < len(parts) and sum(len(part.encode()) for part in parts[::-n]) > limit:
        n += 1
    return "".join(parts[::-n][::-1])

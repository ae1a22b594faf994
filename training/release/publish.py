"""Publish a finished run: test scores, a model card in `best/`, an optional upload, and next steps.

The decoding settings are those of the recipe; `training.finish` tunes them.
"""

import dataclasses
import logging
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hubnmt.checkpoint.card import CardFacts, write_card
from hubnmt.checkpoint.description import CARD_FILE
from hubnmt.checkpoint.folder import load_model
from hubnmt.errors import HubNMTError
from hubnmt.translator import Translator
from training.config.data import CorpusConfig, DataConfig, group_files
from training.data.corpora import read_sides
from training.data.sources import TextPair
from training.files import replace_text
from training.release.baselines import explain_failure, trivial_scores
from training.release.measure import add_examples, add_test
from training.release.records import add_records
from training.run.card_facts import facts_of_run
from training.run.report import peak_memory_mib
from training.run.run_dir import read_validation
from training.run.trainer import Run
from training.run.validation import encode_pairs

log = logging.getLogger("training")

N_EXAMPLES = 500
"""Validation pairs from which the card's good and bad examples are picked."""


class NamedCorpus(NamedTuple):
    """A test set of the recipe."""

    name: str
    dataset: str
    """Dataset name on the Hub, or empty."""
    corpus: CorpusConfig


def publish_run(run: Run) -> None:
    """Evaluate the best weights on the recipe's test sets, write their card, and push them.

    Raises:
        HubNMTError: if the card cannot be written, or the Hub refuses.
    """
    if run.best is None:
        log.info("no validation yet, so there is no best model; resume the run")
        return
    folder, device, (step, bleu) = run.folder, run.group.device, run.best
    peak, best = peak_memory_mib(device), folder / "best"
    log.info("best validation BLEU %.2f at step %d; peak memory %.0f MiB", bleu, step, peak)
    if step == 0:
        log.warning("no validation improved on the pretrained model: best/ holds its weights")
    stored = load_model(best)
    facts = facts_of_run(folder, name=folder.name, config=stored.model.config)
    translator = Translator(stored, device=str(device))
    facts = measure(facts, translator, run.config.data, run.corpus.valid)
    failure = _explain_failure(run)
    facts = dataclasses.replace(facts, limits=" ".join(filter(None, (failure, facts.limits))))
    replace_text(best / CARD_FILE, write_card(facts))
    log.info("model card: %s", best / CARD_FILE)
    add_records(folder, best)
    run.publisher.push_result(best, step=step, bleu=bleu)
    if failure:
        log.warning("%s", failure)
    offer = next_commands(folder, run.config.data, run.publisher.repo)
    for line in _next_after_failure(run) if failure else offer:
        log.info("%s", line)


def _explain_failure(run: Run) -> str:
    """Return why the best model is no better than a trivial one; empty if it is."""
    record = read_validation(run.folder / "best")
    assert record is not None, "there is a best model"
    is_copying = not run.config.data.drop_copies  # then copies may be the task
    return explain_failure(record, trivial_scores(run.corpus.valid, with_copies=not is_copying))


def _next_after_failure(run: Run) -> Iterator[str]:
    """Yield what to do with a model that is not worth sharing."""
    samples, settings = run.folder / "samples.md", run.config.run
    yield f"its translations are in {samples}; it needs more time, or more pairs:"
    longer = f"run.max_steps={10 * settings.max_steps}"
    if settings.max_minutes is not None and run.progress.step < settings.max_steps:
        longer = f"run.max_minutes={10 * settings.max_minutes:g}"
    words = ["python", "-m", "training.train", "--resume", str(run.folder), "--set", longer]
    yield "  " + shlex.join(words)


def measure(
    facts: CardFacts, translator: Translator, data: DataConfig, valid: list[TextPair]
) -> CardFacts:
    """Add examples and test scores; a test set that cannot be used is skipped with a warning."""
    decoding = translator.decoding
    pairs = encode_pairs(translator, *zip(*valid[:N_EXAMPLES], strict=True))
    facts = add_examples(facts, translator, pairs, decoding=decoding)
    for test in name_tests(data):
        try:
            sides = read_sides(test.corpus, src_lang=data.src_lang, tgt_lang=data.tgt_lang)
            named = {"name": test.name, "dataset": test.dataset}
            pairs = encode_pairs(translator, *sides)
            facts = add_test(facts, translator, pairs, **named, decoding=decoding)
        except HubNMTError as error:
            log.warning("no scores on %s: %s", test.name, error)
    return facts


def name_tests(data: DataConfig) -> Iterator[NamedCorpus]:
    """Yield the test sets of a recipe; each group of files is one test set."""
    corpus = data.held_out_corpus("test")
    if corpus is None:
        return
    if not corpus.files:
        yield NamedCorpus(f"{corpus.dataset} {corpus.split}", corpus.dataset or "", corpus)
    for files in group_files(corpus.files):
        path = Path(files[0])
        name = path.name.partition(".")[0]
        is_only = len(group_files(corpus.files)) == 1
        name = name if is_only or not path.parent.name else f"{path.parent.name}/{name}"
        yield NamedCorpus(name, "", dataclasses.replace(corpus, files=files))


def next_commands(folder: Path, data: DataConfig, repo: str | None) -> Iterator[str]:
    """Yield the commands to run next, with the known arguments filled in."""
    # `--private` applies to new repositories only.
    target = [f"USER/{folder.name}", "--private"] if repo is None else [repo]
    if repo is None:
        yield "to publish the model as it is:"
        yield "  " + shlex.join(["hubnmt", "push", str(folder / "best"), *target])
    dest = str(Path("models") / folder.name)
    words = ["python", "-m", "training.finish", str(folder), dest, "--valid", _list(data.valid)]
    tests = list(name_tests(data))
    for test in tests:
        words += ["--test", _list(test.corpus.files)]
        words += ["--test-name", test.name] if len(tests) > 1 else []
    yield "to tune beam size and length penalty first (minutes), evaluate again and publish:"
    yield f"  {shlex.join(words)}"
    yield "  " + shlex.join(["hubnmt", "push", dest, *target])


def _list(files: tuple[str, ...]) -> str:
    """Format files as an argument of `training.finish`, or a placeholder if that is impossible."""
    is_known = files and not any("," in name for name in files)
    return ",".join(files) if is_known else "SRC,REF"

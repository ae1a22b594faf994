"""What a run that has ended leaves to others: test scores, a card in `best/`, and how to go on.

Takes a finished run's folder and what it chose on, gives a card beside the best weights, a push if
asked for, and the commands that are left. Must not know how a run learns. The decoding is the
recipe's own; `training.finish` chooses one.
"""

import dataclasses
import logging
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch

from hubnmt.checkpoint.card import CardFacts, write_card
from hubnmt.checkpoint.folder import CARD_FILE, load_model
from hubnmt.errors import HubNMTError
from hubnmt.translator import Translator
from training.config.data import CorpusConfig, DataConfig, group_files
from training.config.recipe import RunConfig
from training.data.corpora import read_sides
from training.data.sources import TextPair
from training.files import replace_text
from training.release.card_facts import add_examples, add_test, facts_of_run
from training.run.hub_upload import Publisher
from training.run.logging import Best
from training.run.throughput import peak_memory_mib

log = logging.getLogger("training")

N_EXAMPLES = 500
"""Validation pairs among which the card's good and bad examples are looked for."""


class NamedCorpus(NamedTuple):
    """A test set of the recipe."""

    name: str
    dataset: str
    """Its name on the Hub, or empty."""
    corpus: CorpusConfig


def hand_over(
    config: RunConfig,
    folder: Path,
    *,
    valid: list[TextPair],
    device: torch.device,
    kept: Best | None,
    publisher: Publisher,
) -> None:
    """Measure the best weights once on the recipe's test set, write their card, push, say the rest.

    Args:
        config: the recipe.
        folder: the run's.
        valid: what was chosen on.
        device: where to measure.
        kept: what `best/` holds, if anything.
        publisher: the way to the Hub.

    Raises:
        HubNMTError: if the card cannot be written, or the Hub refuses.
    """
    if kept is None:
        log.info("no validation yet, so there is no best model: let the run go on")
        return
    best, (step, bleu) = folder / "best", kept
    peak = peak_memory_mib(device)
    log.info("best validation BLEU %.2f at step %d; peak memory %.0f MiB", bleu, step, peak)
    if step == 0:
        log.warning("no validation was better than the start: best/ holds the weights of that")
    stored = load_model(best)
    facts = facts_of_run(folder, name=folder.name, config=stored.model.config)
    facts = measure(facts, Translator(stored, device=str(device)), config.data, valid)
    replace_text(best / CARD_FILE, write_card(facts))
    log.info("the card: %s", best / CARD_FILE)
    publisher.push_result(best, step=step, bleu=bleu)
    for line in last_lines(folder, config.data, publisher.repo):
        log.info("%s", line)


def measure(
    facts: CardFacts, translator: Translator, data: DataConfig, valid: list[TextPair]
) -> CardFacts:
    """Add examples and test scores; a test set of no use costs its scores and no more."""
    decoding = translator.decoding
    sources, references = ([pair[side] for pair in valid[:N_EXAMPLES]] for side in (0, 1))
    facts = add_examples(facts, translator, sources, references, decoding=decoding)
    for test in name_tests(data):
        try:
            sides = read_sides(test.corpus, src_lang=data.src_lang, tgt_lang=data.tgt_lang)
            named = {"name": test.name, "dataset": test.dataset}
            facts = add_test(facts, translator, *sides, **named, decoding=decoding)
        except HubNMTError as error:
            log.warning("no scores on %s: %s", test.name, error)
    return facts


def name_tests(data: DataConfig) -> Iterator[NamedCorpus]:
    """List the test sets of a recipe; of several files, each set apart from the others."""
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


def last_lines(folder: Path, data: DataConfig, repo: str | None) -> Iterator[str]:
    """Write the commands that are left, with what is known of their arguments."""
    # One that was pushed to is there, and `--private` is for new ones.
    target = [f"USER/{folder.name}", "--private"] if repo is None else [repo]
    if repo is None:
        yield "to share it as it is:"
        yield "  " + shlex.join(["hubnmt", "push", str(folder / "best"), *target])
    dest = str(Path("models") / folder.name)
    words = ["python", "-m", "training.finish", str(folder), dest, "--valid", _list(data.valid)]
    tests = list(name_tests(data))
    for test in tests:
        words += ["--test", _list(test.corpus.files)]
        words += ["--test-name", test.name] if len(tests) > 1 else []
    yield "to choose beam size and length penalty first (minutes), measure again and share that:"
    yield f"  {shlex.join(words)}"
    yield "  " + shlex.join(["hubnmt", "push", dest, *target])


def _list(files: tuple[str, ...]) -> str:
    """Write files as `training.finish` reads them, or what stands for those it could not."""
    is_known = files and not any("," in name for name in files)
    return ",".join(files) if is_known else "SRC,REF"

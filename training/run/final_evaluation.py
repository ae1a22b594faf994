"""The evaluation at the end of a run: scores and examples for its card, and what to do next."""

import collections
import dataclasses
import logging
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hubnmt.checkpoint.card import CardFacts, TestResult, write_card
from hubnmt.checkpoint.files import CARD
from hubnmt.checkpoint.folder import load_model
from hubnmt.errors import HubNMTError
from hubnmt.text.metrics import score_corpus, sentence_chrf
from hubnmt.translator import Translator
from training.data.corpora import TestSet, read_tests
from training.data.sources import TextPair
from training.files import replace_text
from training.run.report import copy_records, facts_of_run, peak_memory_mib
from training.run.trainer import Trainer
from training.run.validation import HeldOutPairs, decode_pairs, encode_pairs, read_validation

log = logging.getLogger("training")

N_SAMPLES = 5
N_EXAMPLES = 500
"""Validation pairs from which `evaluate_best` picks the good and bad examples of the card."""


def evaluate_best(trainer: Trainer) -> None:
    """Evaluate `best/` on the recipe's test sets, write its card, and say what to do next.

    A test set that cannot be used is only reported: the run has ended, and its model is stored.
    """
    folder, best = trainer.folder, trainer.folder / "best"
    record = read_validation(best)
    if record is None:
        log.info("no validation yet, so there is no best model; resume the run")
        return
    log.info(
        "best validation BLEU %.2f  chrF %.2f at step %d; peak memory %.0f MiB",
        record["bleu"],
        record["chrf"],
        record["step"],
        peak_memory_mib(trainer.group.device),
    )
    # 1. Measure.
    stored, data = load_model(best), trainer.recipe.data
    translator = Translator(stored, device=str(trainer.group.device))
    pairs = encode_pairs(translator, trainer.run_data.valid[:N_EXAMPLES])
    texts = decode_pairs(translator, pairs, translator.decoding)
    facts = facts_of_run(folder, record, name=folder.name, config=stored.model.config)
    try:
        facts = add_measured(facts, translator, pairs, texts, read_tests(data))
    except HubNMTError as error:
        log.warning("no test scores: %s", error)
        facts = add_measured(facts, translator, pairs, texts, [])
    # 2. Compare with translations that need no model; copies may be the task.
    failure = explain_failure(record, trainer.run_data.valid, with_copies=data.drop_copies)
    # 3. Write the card and the record of the run.
    facts = dataclasses.replace(facts, limits=" ".join(filter(None, (failure, facts.limits))))
    replace_text(best / CARD, write_card(facts))
    log.info("model card: %s", best / CARD)
    copy_records(folder, best)
    _log_next_commands(trainer, record, failure)


def _log_next_commands(trainer: Trainer, record: dict[str, Any], failure: str) -> None:
    folder, run_config = trainer.folder, trainer.recipe.run
    if failure:
        longer = f"run.max_steps={10 * run_config.max_steps}"
        if run_config.max_minutes is not None and trainer.progress.step < run_config.max_steps:
            longer = f"run.max_minutes={10 * run_config.max_minutes:g}"
        words = ["python", "-m", "training.train", "--resume", str(folder), "--set", longer]
        log.warning("%s Its translations are in %s.", failure, folder / "samples.md")
        log.info("it needs more time, or more pairs:\n  %s", shlex.join(words))
    elif record["step"] == 0:
        log.warning(
            "no validation improved on the pretrained model, whose weights are in best/: try a "
            "lower optimizer.lr, more steps or more pairs"
        )
    else:
        words = ["python", "-m", "training.finish", str(folder), str(Path("models", folder.name))]
        log.info("to publish it as it is:\n  %s", push_command(folder / "best", name=folder.name))
        log.info("to tune beam size and length penalty first (minutes):\n  %s", shlex.join(words))


def add_measured(
    facts: CardFacts,
    translator: Translator,
    pairs: HeldOutPairs,
    texts: Sequence[str],
    tests: Iterable[TestSet],
) -> CardFacts:
    """Add examples of the validation set, the mean tokens per word, and scores of the test sets.

    `texts` are the translations of the validation pairs. Good examples are those from the 90th
    percentile of sentence chrF on, because the very best are trivial; bad ones those from the 5th.
    Each test set is translated once, with the decoding settings of the model.
    """
    # 1. Examples.
    rows = list(zip(pairs.sources, pairs.references, texts, strict=True))
    rows.sort(key=lambda row: sentence_chrf(row[2], row[1]))
    high, low = int(0.9 * len(rows)), int(0.05 * len(rows))
    # 2. Tokens per word.
    languages = (translator.config.src_lang, translator.config.tgt_lang)
    sides = zip(languages, pairs[:2], zip(*pairs.ids, strict=True), strict=True)
    pieces = {
        language: sum(map(len, ids)) / max(1, sum(len(text.split()) for text in texts))
        for language, texts, ids in sides
    }
    # 3. Scores.
    results = []
    for test in tests:
        held_out = encode_pairs(translator, test.pairs)
        phase = f"measuring {test.name}"
        found = decode_pairs(translator, held_out, translator.decoding, phase=phase)
        scores = score_corpus(found, held_out.references, bootstrap=True)
        log.info(
            "%s: BLEU %.2f  chrF %.2f  (%s)",
            test.name,
            scores.bleu,
            scores.chrf,
            scores.bleu_signature,
        )
        dataset = test.dataset or next(iter(facts.datasets), "local")
        results.append(
            TestResult(name=test.name, dataset=dataset, scores=scores, decoding=translator.decoding)
        )
    return dataclasses.replace(
        facts,
        good=rows[high : high + N_SAMPLES],
        bad=rows[low : low + N_SAMPLES],
        pieces_per_word=pieces,
        results=results,
    )


def explain_failure(
    record: Mapping[str, Any], valid: Sequence[TextPair], *, with_copies: bool
) -> str:
    """Return which trivial translation the model does not surpass; empty if there is none.

    `record` has its `bleu` and `chrf`. Copies count if `with_copies`: they may be the task itself.
    """
    sources, references = ([pair[side] for pair in valid] for side in (0, 1))
    ((commonest, _),) = collections.Counter(references).most_common(1)
    trivial = {f"{commonest!r} each time": [commonest] * len(references)}
    if with_copies:
        trivial["copying the source"] = sources
    for name, texts in trivial.items():
        scores = score_corpus(texts, references)
        if record["bleu"] <= scores.bleu or record["chrf"] <= scores.chrf:
            return (
                f"This model has learned nothing yet: on the validation set it has BLEU "
                f"{record['bleu']:.2f} and chrF {record['chrf']:.2f}, and {name} gives BLEU "
                f"{scores.bleu:.2f} and chrF {scores.chrf:.2f}."
            )
    return ""


def push_command(folder: Path, *, name: str) -> str:
    """Return the command that pushes a model folder; a new repository is private."""
    return shlex.join(["hubnmt", "push", str(folder), f"USER/{name}", "--private"])

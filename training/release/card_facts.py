"""Contents of a model card: how the run was made, example translations and test scores."""

import dataclasses
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hubnmt.checkpoint.card import CardFacts, TestResult
from hubnmt.checkpoint.folder import read_json
from hubnmt.config import DecodingConfig, ModelConfig
from hubnmt.errors import InputError
from hubnmt.text.metrics import score_corpus, sentence_chrf
from hubnmt.translator import Translator
from training.optim.averaging import describe_judged
from training.run.finetune import describe_pretrained
from training.run.run_dir import Weights, read_validation
from training.run.validation import HeldOutPairs, decode_pairs

log = logging.getLogger("training")


def pick_samples(
    sources: Sequence[str], references: Sequence[str], translations: Sequence[str], *, n: int = 5
) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str]]]:
    """Pick good and bad examples by sentence chrF, without the trivial best ones.

    Returns:
        `n` from the 90th percentile on, and `n` from the 5th.
    """
    rows = list(zip(sources, references, translations, strict=True))
    rows.sort(key=lambda row: sentence_chrf(row[2], row[1]))
    high, low = int(0.9 * len(rows)), int(0.05 * len(rows))
    return rows[high : high + n], rows[low : low + n]


def training_facts(run_dir: Path, *, name: str, weights: Weights = "best") -> dict[str, Any]:
    """Collect the run's records and those of the chosen weights.

    Raises:
        InputError: if the run has no validation yet.
        ModelFolderError: if its records are damaged.
    """
    machine, recipe = read_json(run_dir / "machine.json"), read_json(run_dir / "recipe.json")
    taken = read_validation(run_dir / weights)
    if taken is None:
        raise InputError(f"{run_dir}: no validation yet; resume the run")
    judged = describe_judged(recipe["run"])
    as_typed = ", as people type" if recipe["data"]["valid_as_typed"] else ""
    return {
        "started from": started_from(machine, name=name) or None,
        "machine": f"{machine['device']}, {machine['dtype']}",
        f"minutes until the {weights} weights": round(taken["minutes"], 1),
        f"steps until the {weights} weights": taken["step"],
        "weights": judged
        if taken["step"]
        else "those of the pretrained model: no validation improved on it",
        f"validation{as_typed}, greedy": f"BLEU {taken['bleu']:.2f} "
        f"(`{taken['bleu_signature']}`), loss {taken['dev_loss']:.3f} nats per token",
        "seed": recipe["run"]["seed"],
        "versions": f"hubnmt {machine['hubnmt']}, torch {machine['torch']}",
    }


def started_from(machine: Mapping[str, Any], *, name: str) -> str:
    """Return the name of the pretrained model; empty if trained from scratch.

    A new version may have the same name as its pretrained model, whose name alone would then refer
    to the card itself.
    """
    record = machine["pretrained"]
    if not record:
        return ""
    description = describe_pretrained(record)
    return f"an earlier {description}" if description == name else description


def recipe_lines(run_dir: Path) -> str:
    """Return the tokenizer, model and optimizer settings as TOML."""
    recipe = read_json(run_dir / "recipe.json")
    lines = []
    for section in ("tokenizer", "model", "optimizer"):
        lines.append(f"[{section}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in recipe[section].items()]
    return "\n".join(lines)


def facts_of_run(
    run_dir: Path, *, name: str, config: ModelConfig, weights: Weights = "best"
) -> CardFacts:
    """Collect the card's contents that need no evaluation.

    Raises:
        InputError: if the run has no validation yet.
        ModelFolderError: if its records are damaged.
    """
    recipe, cleaning = read_json(run_dir / "recipe.json"), read_json(run_dir / "cleaning.json")
    card, machine = recipe["card"], read_json(run_dir / "machine.json")
    dropped = ", ".join(f"{count:,} {why}" for why, count in cleaning["dropped"].items())
    return CardFacts(
        name=name,
        title=card["title"],
        config=config,
        license=card["license"],
        datasets=tuple(card["datasets"]),
        data=card["data"],
        data_license=card["data_license"],
        limits=card["limits"],
        bias=card["bias"],
        citation=card["citation"],
        recipe=recipe_lines(run_dir),
        cleaning=f"{cleaning['n_kept']:,} of {cleaning['n_read']:,} training pairs kept; "
        f"dropped: {dropped or 'none'}.",
        training=training_facts(run_dir, name=name, weights=weights),
        started_from=started_from(machine, name=name),
        base_model=_base_model(machine),
    )


def _base_model(machine: Mapping[str, Any]) -> str:
    """Return the Hub name of the pretrained model, or an empty string."""
    record = machine["pretrained"] or {}
    return str(record["name"]) if record.get("commit") else ""


def add_examples(
    facts: CardFacts, translator: Translator, pairs: HeldOutPairs, *, decoding: DecodingConfig
) -> CardFacts:
    """Add example translations of the validation set and the mean number of tokens per word."""
    texts = decode_pairs(translator, pairs, decoding)
    good, bad = pick_samples(pairs.sources, pairs.references, texts)
    languages = (translator.config.src_lang, translator.config.tgt_lang)
    sides = zip(languages, pairs[:2], zip(*pairs.ids, strict=True), strict=True)
    pieces = {
        language: sum(map(len, ids)) / max(1, sum(len(text.split()) for text in texts))
        for language, texts, ids in sides
    }
    return dataclasses.replace(facts, good=good, bad=bad, pieces_per_word=pieces)


def add_test(
    facts: CardFacts,
    translator: Translator,
    pairs: HeldOutPairs,
    *,
    name: str,
    dataset: str,
    decoding: DecodingConfig,
) -> CardFacts:
    """Evaluate on one test set and add the result, named as on the card.

    `dataset` is its origin, preferably a Hub dataset name; empty means the recipe's first dataset.
    """
    texts = decode_pairs(translator, pairs, decoding)
    scores = score_corpus(texts, pairs.references, bootstrap=True)
    dataset = dataset or (facts.datasets[0] if facts.datasets else "local")
    result = TestResult(name=name, dataset=dataset, scores=scores, decoding=decoding)
    log.info(
        "%s: BLEU %.2f  chrF %.2f  (%s)", name, scores.bleu, scores.chrf, scores.bleu_signature
    )
    return dataclasses.replace(facts, results=[*facts.results, result])

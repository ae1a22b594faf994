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
from hubnmt.text.tokenizer import Tokenizer
from hubnmt.translator import Translator
from training.optim.averaging import describe_judged
from training.run.best_record import Weights, read_best_record
from training.run.finetune import describe_pretrained
from training.run.run_dir import read_records
from training.run.validation import decode_pairs, encode_pairs

log = logging.getLogger("training")


def pieces_per_word(tokenizer: Tokenizer, texts: Sequence[str]) -> float:
    """Return the mean number of tokens per white-space-separated word."""
    n_pieces = sum(map(len, tokenizer.encode_batch(texts)))
    return n_pieces / max(1, sum(len(text.split()) for text in texts))


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

    Args:
        run_dir: the run folder.
        name: name of the published model.
        weights: which of its model folders is published.

    Raises:
        InputError: if the run has no validation yet.
        ModelFolderError: if its records are damaged.
    """
    machine, recipe = read_json(run_dir / "machine.json"), read_json(run_dir / "recipe.json")
    valid = [record for record in read_records(run_dir) if record.get("kind") == "valid"]
    if not valid:
        raise InputError(f"{run_dir}: no validation in metrics.jsonl yet; resume the run")
    at_best = max(valid, key=lambda each: float(each["bleu"]))
    taken = read_best_record(run_dir / weights) or (at_best if weights == "best" else valid[-1])
    judged = describe_judged(recipe["run"])
    dtype = machine.get("dtype")  # not recorded by runs of 0.1.0
    as_typed = ", as people type" if recipe["data"].get("valid_as_typed") else ""
    return {
        "started from": started_from(machine, name=name) or None,
        "machine": ", ".join([machine["device"], *([dtype] if dtype else [])]),
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
    record = machine.get("pretrained")  # not recorded by runs of 0.1.0
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
        bias=card.get("bias", ""),  # absent from recipes of 0.1.0
        citation=card.get("citation", ""),
        recipe=recipe_lines(run_dir),
        cleaning=f"{cleaning['n_kept']:,} of {cleaning['n_read']:,} training pairs kept; "
        f"dropped: {dropped or 'none'}.",
        training=training_facts(run_dir, name=name, weights=weights),
        started_from=started_from(machine, name=name),
        base_model=_base_model(machine),
    )


def _base_model(machine: Mapping[str, Any]) -> str:
    """Return the Hub name of the pretrained model, or an empty string."""
    record = machine.get("pretrained") or {}
    return str(record["name"]) if record.get("commit") else ""


def add_examples(
    facts: CardFacts,
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    decoding: DecodingConfig,
) -> CardFacts:
    """Add example translations of the validation set and the tokens per word."""
    pairs = encode_pairs(translator, sources, references)
    texts = decode_pairs(translator, pairs, decoding)
    good, bad = pick_samples(pairs.sources, pairs.references, texts)
    config = translator.config
    pieces = {
        config.src_lang: pieces_per_word(translator.tokenizers.src, sources),
        config.tgt_lang: pieces_per_word(translator.tokenizers.tgt, references),
    }
    return dataclasses.replace(facts, good=good, bad=bad, pieces_per_word=pieces)


def add_test(
    facts: CardFacts,
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    name: str,
    dataset: str,
    decoding: DecodingConfig,
) -> CardFacts:
    """Evaluate on one test set and add the result.

    Args:
        facts: contents of the card so far.
        translator: the model.
        sources: source texts.
        references: one reference for each source.
        name: name of the test set on the card.
        dataset: origin, preferably a Hub dataset name; empty means the recipe's first dataset.
        decoding: beam size and length penalty.
    """
    pairs = encode_pairs(translator, sources, references)
    texts = decode_pairs(translator, pairs, decoding)
    scores = score_corpus(texts, pairs.references, bootstrap=True)
    dataset = dataset or (facts.datasets[0] if facts.datasets else "local")
    result = TestResult(name=name, dataset=dataset, scores=scores, decoding=decoding)
    log.info(
        "%s: BLEU %.2f  chrF %.2f  (%s)", name, scores.bleu, scores.chrf, scores.bleu_signature
    )
    return dataclasses.replace(facts, results=[*facts.results, result])

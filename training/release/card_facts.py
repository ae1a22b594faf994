"""What can be said of a run: how it was made, examples of what it says, what it scores.

Takes a run folder and one of its models as a `Translator`, gives `CardFacts`. Must not know how the
decoding is chosen or where the card goes.
"""

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
from training.run.best_record import Weights, read_note
from training.run.finetune import describe_pretrained
from training.run.run_dir import read_records
from training.run.validation import decode_pairs, encode_pairs

log = logging.getLogger("training")


def pieces_per_word(tokenizer: Tokenizer, texts: Sequence[str]) -> float:
    """Count tokens per white-space word."""
    n_pieces = sum(map(len, tokenizer.encode_batch(texts)))
    return n_pieces / max(1, sum(len(text.split()) for text in texts))


def pick_samples(
    sources: Sequence[str], references: Sequence[str], translations: Sequence[str], *, n: int = 5
) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str]]]:
    """Pick good and bad examples by sentence chrF, away from the trivial top.

    Returns:
        `n` around the 90th percentile, and `n` around the 5th.
    """
    rows = list(zip(sources, references, translations, strict=True))
    rows.sort(key=lambda row: sentence_chrf(row[2], row[1]))
    high, low = int(0.9 * len(rows)), int(0.05 * len(rows))
    return rows[high : high + n], rows[low : low + n]


def training_facts(run_dir: Path, *, name: str, weights: Weights = "best") -> dict[str, Any]:
    """Collect what the run recorded about itself, and about the weights that are taken.

    Args:
        run_dir: the run folder.
        name: of the model that is made of it.
        weights: which of the two it kept.

    Raises:
        InputError: if the run has no validation yet.
        ModelFolderError: if its records are torn.
    """
    machine, recipe = read_json(run_dir / "machine.json"), read_json(run_dir / "recipe.json")
    valid = [record for record in read_records(run_dir) if record.get("kind") == "valid"]
    if not valid:
        raise InputError(f"{run_dir}: no validation in metrics.jsonl yet; let the run go on")
    at_best = max(valid, key=lambda each: float(each["bleu"]))
    taken = read_note(run_dir / weights) or (at_best if weights == "best" else valid[-1])
    judged = describe_judged(recipe["run"])
    dtype = machine.get("dtype")  # runs of 0.1.0 did not say
    as_typed = ", as people type" if recipe["data"].get("valid_as_typed") else ""
    return {
        "started from": started_from(machine, name=name) or None,
        "machine": ", ".join([machine["device"], *([dtype] if dtype else [])]),
        f"minutes until the {weights} weights": round(taken["minutes"], 1),
        f"steps until the {weights} weights": taken["step"],
        "weights": judged if taken["step"] else "those it started from: no validation was better",
        f"validation{as_typed}, greedy": f"BLEU {taken['bleu']:.2f} "
        f"(`{taken['bleu_signature']}`), loss {taken['dev_loss']:.3f} nats per token",
        "seed": recipe["run"]["seed"],
        "versions": f"hubnmt {machine['hubnmt']}, torch {machine['torch']}",
    }


def started_from(machine: Mapping[str, Any], *, name: str) -> str:
    """Name the model that a run started from; empty if from scratch.

    A run may end as the next model of the same name: then the name alone would send the reader of
    a card to the card that is being read.
    """
    record = machine.get("pretrained")  # runs of 0.1.0 had none to name
    if not record:
        return ""
    said = describe_pretrained(record)
    return f"an earlier {said}" if said == name else said


def recipe_lines(run_dir: Path) -> str:
    """Write the settings that decide the result as TOML."""
    recipe = read_json(run_dir / "recipe.json")
    lines = []
    for section in ("tokenizer", "model", "optimizer"):
        lines.append(f"[{section}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in recipe[section].items()]
    return "\n".join(lines)


def facts_of_run(
    run_dir: Path, *, name: str, config: ModelConfig, weights: Weights = "best"
) -> CardFacts:
    """Collect what the card can say before anything is measured.

    Raises:
        InputError: if the run has no validation yet.
        ModelFolderError: if its records are torn.
    """
    recipe, cleaning = read_json(run_dir / "recipe.json"), read_json(run_dir / "cleaning.json")
    said, machine = recipe["card"], read_json(run_dir / "machine.json")
    dropped = ", ".join(f"{count:,} {why}" for why, count in cleaning["dropped"].items())
    return CardFacts(
        name=name,
        title=said["title"],
        config=config,
        license=said["license"],
        datasets=tuple(said["datasets"]),
        data=said["data"],
        data_license=said["data_license"],
        limits=said["limits"],
        bias=said.get("bias", ""),  # runs of 0.1.0 did not ask
        citation=said.get("citation", ""),
        recipe=recipe_lines(run_dir),
        cleaning=f"{cleaning['n_kept']:,} of {cleaning['n_read']:,} training pairs kept; "
        f"dropped: {dropped or 'none'}.",
        training=training_facts(run_dir, name=name, weights=weights),
        started_from=started_from(machine, name=name),
        base_model=_base_model(machine),
    )


def _base_model(machine: Mapping[str, Any]) -> str:
    """Return the Hub's name of the model that a run started from, if it came from there."""
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
    """Show what the model makes of the validation set, and what its tokenizers do."""
    pairs = encode_pairs(translator, sources, references)
    texts = decode_pairs(translator, pairs, decoding)
    good, bad = pick_samples(pairs.sources, pairs.references, texts)
    config = translator.config
    pieces = {
        config.src_lang: pieces_per_word(translator.src_tokenizer, sources),
        config.tgt_lang: pieces_per_word(translator.tgt_tokenizer, references),
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
    """Measure on one test set.

    Args:
        facts: what is known; it gets one more result.
        translator: the model.
        sources: texts.
        references: one each.
        name: of the test set, for the card.
        dataset: where it comes from, best a name on the Hub; empty means the recipe's first.
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

"""Contents of a model card that a run records: how it was made."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hubnmt.checkpoint.card import CardFacts
from hubnmt.checkpoint.files import read_json
from hubnmt.config import ModelConfig
from hubnmt.errors import InputError
from training.run.finetune import describe_pretrained
from training.run.run_dir import Weights, read_validation


def training_facts(
    run_dir: Path, taken: Mapping[str, Any], *, name: str, weights: Weights
) -> dict[str, Any]:
    """Collect the run's records and those of the chosen weights.

    Raises:
        ModelFolderError: if its records are damaged.
    """
    machine, recipe = read_json(run_dir / "machine.json"), read_json(run_dir / "recipe.json")
    sessions = machine.get("sessions", [])
    later = "".join(f"; from step {part['step']:,} {part['device']}" for part in sessions)
    average = describe_average(recipe["run"])
    as_typed = ", as people type" if recipe["data"]["valid_as_typed"] else ""
    return {
        "started from": started_from(machine, name=name) or None,
        "machine": f"{machine['device']}, {machine['dtype']}{later}",
        f"minutes until the {weights} weights": round(taken["minutes"], 1),
        f"steps until the {weights} weights": taken["step"],
        "weights": average
        if taken["step"]
        else "those of the pretrained model: no validation improved on it",
        f"validation{as_typed}, greedy": f"BLEU {taken['bleu']:.2f} "
        f"(`{taken['bleu_signature']}`), loss {taken['dev_loss']:.3f} nats per token",
        "seed": recipe["run"]["seed"],
        "versions": f"hubnmt {machine['hubnmt']}, torch {machine['torch']}",
    }


def describe_average(run: Mapping[str, Any]) -> str:
    """Describe which weights `best/` holds, given the `[run]` section of the recipe."""
    if run["average_last"] == 1 or run.get("judged") == "raw":
        return "as training left them at that step"
    return f"mean of the last {run['average_last']} snapshots, one every {run['eval_every']} steps"


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
    """Return the tokenizer, model and optimizer settings as TOML, which has no null."""
    recipe = read_json(run_dir / "recipe.json")
    lines = []
    for section in ("tokenizer", "model", "optimizer"):
        lines.append(f"[{section}]")
        lines += [
            f"{key} = {json.dumps(value)}"
            for key, value in recipe[section].items()
            if value is not None
        ]
    return "\n".join(lines)


def facts_of_run(
    run_dir: Path,
    *,
    name: str,
    config: ModelConfig,
    weights: Weights = "best",
    taken: Mapping[str, Any] | None = None,
) -> CardFacts:
    """Collect the card's contents that need no evaluation.

    Args:
        run_dir: folder of the run.
        name: name of the model.
        config: architecture.
        weights: which weights of the run.
        taken: record of their validation; by default the one stored with them.

    Raises:
        InputError: if the run has no validation yet.
        ModelFolderError: if its records are damaged.
    """
    recipe, cleaning = read_json(run_dir / "recipe.json"), read_json(run_dir / "cleaning.json")
    card, machine = recipe["card"], read_json(run_dir / "machine.json")
    taken = taken or read_validation(run_dir / weights)
    if taken is None:
        raise InputError(f"{run_dir}: no validation yet; resume the run")
    dropped = ", ".join(f"{count:,} {why}" for why, count in cleaning["dropped"].items())
    return CardFacts(
        name=name,
        title=card["title"],
        config=config,
        license=card["license"],
        license_name=card.get("license_name", ""),
        license_link=card.get("license_link", ""),
        datasets=tuple(card["datasets"]) or tuple(_hub_datasets(recipe["data"])),
        data=card["data"],
        data_license=card["data_license"],
        limits=card["limits"],
        bias=card["bias"],
        citation=card["citation"],
        recipe=recipe_lines(run_dir),
        cleaning=f"{cleaning['n_kept']:,} of {cleaning['n_read']:,} training pairs kept; "
        f"dropped: {dropped or 'none'}.",
        training=training_facts(run_dir, taken, name=name, weights=weights),
        started_from=started_from(machine, name=name),
        base_model=_base_model(machine),
    )


def _hub_datasets(data: Mapping[str, Any]) -> Iterator[str]:
    names = (corpus.get("dataset") for corpus in (data, *data["corpora"].values()))
    yield from dict.fromkeys(name for name in names if name)


def _base_model(machine: Mapping[str, Any]) -> str:
    record = machine["pretrained"] or {}
    return str(record["name"]) if record.get("commit") else ""

"""Contents of a model card that a run records: how it was made."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hubnmt.checkpoint.card import CardFacts
from hubnmt.checkpoint.files import read_json
from hubnmt.config import ModelConfig
from hubnmt.errors import InputError
from training.run.finetune import describe_pretrained
from training.run.run_dir import Weights, read_validation

SAME_NAME = ("title", "license", "data", "data_license", "limits", "bias", "citation")
"""Settings of `[card]` that `CardFacts` takes as they are."""


def facts_of_run(
    run_dir: Path,
    *,
    name: str,
    config: ModelConfig,
    weights: Weights = "best",
    taken: Mapping[str, Any] | None = None,
) -> CardFacts:
    """Collect the card's contents that need no evaluation.

    `taken` is the record of the validation of the weights, by default the one stored with them.

    Raises:
        InputError: if the run has no validation yet.
    """
    recipe, cleaning = read_json(run_dir / "recipe.json"), read_json(run_dir / "cleaning.json")
    machine, card = read_json(run_dir / "machine.json"), recipe["card"]
    taken = taken or read_validation(run_dir / weights)
    if taken is None:
        raise InputError(f"{run_dir}: no validation yet; resume the run")
    dropped = ", ".join(f"{count:,} {why}" for why, count in cleaning["dropped"].items())
    data = recipe["data"]
    datasets = [part.get("dataset") for part in (data, *data["corpora"].values())]
    pretrained = machine["pretrained"] or {}
    started_from = describe_pretrained(pretrained) if pretrained else ""
    if started_from == name:  # the name alone would refer to the card itself
        started_from = f"an earlier {name}"
    return CardFacts(
        name=name,
        config=config,
        **{key: card[key] for key in SAME_NAME if key in card},
        datasets=tuple(card["datasets"] or dict.fromkeys(filter(None, datasets))),
        recipe=_recipe_lines(recipe),
        cleaning=f"{cleaning['n_kept']:,} of {cleaning['n_read']:,} training pairs kept; "
        f"dropped: {dropped or 'none'}.",
        training={
            "started from": started_from or None,
            **_training_facts(recipe, machine, taken, weights=weights),
        },
        started_from=started_from,
        base_model=pretrained["name"] if pretrained.get("commit") else "",
    )


def _training_facts(
    recipe: Mapping[str, Any], machine: Mapping[str, Any], taken: Mapping[str, Any], *, weights: str
) -> dict[str, Any]:
    """Return the records of the run and of the chosen weights."""
    is_trained = taken["step"] > 0
    return {
        "machine": f"{machine['device']}, {machine['dtype']}",
        f"minutes until the {weights} weights": round(taken["minutes"], 1),
        f"steps until the {weights} weights": taken["step"],
        "weights": describe_average(recipe["run"])
        if is_trained
        else "those of the pretrained model: no validation improved on it",
        "validation, greedy": f"BLEU {taken['bleu']:.2f} "
        f"(`{taken['bleu_signature']}`), loss {taken['dev_loss']:.3f} nats per token",
        "seed": recipe["run"]["seed"],
        "versions": f"hubnmt {machine['hubnmt']}, torch {machine['torch']}",
    }


def describe_average(run: Mapping[str, Any]) -> str:
    """Describe which weights `best/` holds, given the `[run]` section of the recipe."""
    if run["average_last"] == 1 or run.get("judged") == "raw":
        return "as training left them at that step"
    return f"mean of the last {run['average_last']} snapshots, one every {run['eval_every']} steps"


def _recipe_lines(recipe: Mapping[str, Any]) -> str:
    """Return the tokenizer, model and optimizer settings as TOML, which has no null."""
    lines = []
    for section in ("tokenizer", "model", "optimizer"):
        values = {key: value for key, value in recipe[section].items() if value is not None}
        lines += [f"[{section}]", *(f"{key} = {json.dumps(v)}" for key, v in values.items())]
    return "\n".join(lines)

"""What tests of training need to look at runs and to disturb them."""

import dataclasses
import json
import math
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from hubnmt import Translator
from training.data.batching import Batch
from training.optim import step
from training.optim.loss import LossSums
from training.optim.step import Stepper
from training.run import validation
from training.run.trainer import Trainer

FarmOptions = Callable[..., list[str]]
RunFarm = Callable[..., Trainer]
MakeRun = Callable[..., Trainer]


def as_flags(settings: Iterable[str]) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


def read_metrics(folder: Path, kind: str = "") -> list[dict[str, Any]]:
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    return [record for record in records if kind in ("", record["kind"])]


def curve(folder: Path) -> list[tuple[Any, ...]]:
    """What was recorded of each step and validation, but for the times."""
    keys = ("kind", "step", "loss", "grad_norm", "dev_loss", "bleu")
    return [tuple(map(record.get, keys)) for record in read_metrics(folder)]


def same_models(*folders: Path) -> bool:
    """Tell whether two runs have the same best and the same last weights, byte for byte."""
    first, second = (
        [(folder / name / "model.safetensors").read_bytes() for name in ("best", "last")]
        for folder in folders
    )
    return first == second


def read_samples(folder: Path) -> list[list[tuple[str, str]]]:
    """Sources and references in each table of samples.md."""
    tables = (folder / "samples.md").read_text(encoding="utf-8").split("\n## ")[1:]
    rows = [[line for line in table.splitlines() if line.startswith("| ")][1:] for table in tables]
    return [[tuple(row.split(" | ")[:2]) for row in table] for table in rows]  # type: ignore[misc]


def differing(
    run: Trainer | Translator, other: Trainer | Translator | Mapping[str, Tensor]
) -> list[str]:
    """Name the weights that are not the same to the last bit."""
    theirs = other if isinstance(other, Mapping) else dict(other.model.named_parameters())
    return [name for name, w in run.model.named_parameters() if not w.equal(theirs[name])]


def stop_at(step_number: int, patch: pytest.MonkeyPatch) -> None:
    """Press Ctrl-C in the middle of a step."""
    run = Stepper.start_step
    calls = 0

    def run_and_stop(self: Stepper, batches: Sequence[Batch], **options: Any) -> Tensor:
        nonlocal calls
        calls += 1
        if calls == step_number:
            signal.raise_signal(signal.SIGINT)
        return run(self, batches, **options)

    patch.setattr(Stepper, "start_step", run_and_stop)


def break_at(step_number: int, patch: pytest.MonkeyPatch) -> None:
    """Let the loss of a step, and of those after it, be no number."""
    price = step.projected_cross_entropy
    calls = 0

    def broken(*args: Any, **kwargs: Any) -> LossSums:
        nonlocal calls
        calls += 1
        sums = price(*args, **kwargs)
        is_broken = calls > 2 * (step_number - 1)  # the recipe accumulates two batches
        return LossSums(sums.smoothed * math.nan, sums.nll) if is_broken else sums

    patch.setattr(step, "projected_cross_entropy", broken)


def score_as(
    bleu: list[float], patch: pytest.MonkeyPatch, *, chrf: list[float] | None = None
) -> None:
    """Let the validations come out like this."""
    judge = validation.evaluate
    values = iter(zip(bleu, chrf or bleu, strict=True))

    def evaluate(*args: Any, **kwargs: Any) -> Any:
        evaluation = judge(*args, **kwargs)
        bleu, chrf = next(values)
        scored = dataclasses.replace(evaluation.scores, bleu=bleu, chrf=chrf)
        return dataclasses.replace(evaluation, scores=scored)

    patch.setattr(validation, "evaluate", evaluate)

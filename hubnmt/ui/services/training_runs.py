"""Read the metrics and sample translations of a training run for display.

Malformed lines are skipped, because the run may still be writing.
"""

import dataclasses
import html
import json
import re
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hubnmt.errors import InputError

METRICS, SAMPLES, RECIPE, CARD = "metrics.jsonl", "samples.md", "recipe.json", "README.md"

MAX_FILE_MIB = 20
"""Larger files are rejected; no training run writes one."""

MAX_SAMPLES, MAX_SAMPLE_CHARS = 20, 1_000
"""Sentences sent to the page, and the characters of each text."""

MAX_VOCAB_SIZE = 10**9
MAX_STEP_DIGITS = 12
"""Larger numbers do not come from a training run."""

CURVES = ("loss", "dev_loss", "bleu", "chrf", "lr")

Points = tuple[tuple[float, float], ...]
"""(step, value) pairs in the order of steps."""


@dataclasses.dataclass(frozen=True, slots=True)
class Recipe:
    """Settings of a run that the page explains; None or empty if they are not recorded."""

    label_smoothing: float | None
    vocab_size: int | None
    schedule: str
    lr: float | None
    """As in the recipe: the peak, or the factor of the schedule `noam` of older runs."""
    warmup_steps: float | None
    started_from: str = ""
    """Name of the pretrained model; empty if trained from scratch."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """Translations of one sentence at successive training steps."""

    src: str
    reference: str
    translations: tuple[tuple[int, str], ...]
    """(step, text), without steps whose translation did not change."""


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """Recorded data of one training run."""

    curves: dict[str, Points]
    """Name -> points; the recorded ones of `CURVES`."""
    samples: tuple[Sample, ...]
    sample_steps: tuple[int, ...] = ()
    """Steps at which the samples were translated, in order."""
    recipe: Recipe | None = None


def samples_figure(run: Run) -> dict[str, Any] | None:
    """Return the samples as the page's slider shows them; None if there are none.

    Returns:
        `steps`: each with its validation loss and BLEU, if they are recorded; `sentences`: each
        with its `translations` by step, without those that did not change.
    """
    if not run.samples:
        return None
    losses, scores = (dict(run.curves.get(name, ())) for name in ("dev_loss", "bleu"))
    steps = [
        {"step": step, "dev_loss": losses.get(step), "bleu": scores.get(step)}
        for step in run.sample_steps
    ]
    sentences = [
        {
            "src": sample.src[:MAX_SAMPLE_CHARS],
            "reference": sample.reference[:MAX_SAMPLE_CHARS],
            "translations": [[step, text[:MAX_SAMPLE_CHARS]] for step, text in sample.translations],
        }
        for sample in run.samples[:MAX_SAMPLES]
    ]
    return {"steps": steps, "sentences": sentences, "n_sentences": len(run.samples)}


def find_run(model_folder: Path | None) -> Path | None:
    """Find the record of a model's training: in the folder of its run, or in its own."""
    if model_folder is None:
        return None
    is_in_run = model_folder.name in ("best", "last")
    candidates = [model_folder.parent, model_folder] if is_in_run else [model_folder]
    return next((folder for folder in candidates if (folder / METRICS).is_file()), None)


def read_run(folder: Path) -> Run:
    """Read a run folder.

    Raises:
        InputError: if the folder contains no run, or a file is too large.
    """
    if not (folder / METRICS).is_file():
        raise InputError(f"{METRICS} not found: this is not the folder of a training run")
    samples, steps = _read_samples(_read(folder / SAMPLES))
    return Run(_read_curves(_read(folder / METRICS)), samples, steps, _read_recipe(folder))


def _read(path: Path) -> str:
    """Read a file; empty if there is none."""
    try:
        if path.stat().st_size > MAX_FILE_MIB * 2**20:
            raise InputError(f"{path.name} is larger than the limit of {MAX_FILE_MIB} MiB")
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise InputError(f"{path.name} cannot be read ({error.strerror})") from None


def _read_curves(text: str) -> dict[str, Points]:
    curves: dict[str, list[tuple[float, float]]] = {}
    for line in text.split("\n"):
        try:
            record = _table(json.loads(line))
        except (ValueError, RecursionError):
            continue
        step = _number(record.get("step"))
        for name in CURVES:
            value = _number(record.get(name))
            if step is not None and value is not None:
                curves.setdefault(name, []).append((step, value))
    return {name: tuple(points) for name, points in curves.items()}


def _number(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and abs(value) <= sys.float_info.max
    return float(value) if is_number else None


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _read_recipe(folder: Path) -> Recipe | None:
    """Read the recipe of a run folder, or that in the card of a model folder."""
    try:
        if (folder / RECIPE).is_file():
            tables = json.loads(_read(folder / RECIPE))
            pretrained = _table(_table(tables).get("run")).get("pretrained")
        else:
            card = _read(folder / CARD)
            started = re.search(r"(?m)^- started from: (.{1,200})$", card)
            pretrained = started[1] if started else ""
            block = re.search(r"(?ms)^## Training$.*?^```toml\n(.*?)^```$", card)
            tables = tomllib.loads(block[1]) if block else None
    except (ValueError, RecursionError):  # also invalid TOML
        return None
    if not isinstance(tables, Mapping):
        return None
    optimizer, tokenizer = (_table(tables.get(name)) for name in ("optimizer", "tokenizer"))
    smoothing = _number(optimizer.get("label_smoothing"))
    size = _number(tokenizer.get("vocab_size"))
    return Recipe(
        label_smoothing=smoothing if smoothing is not None and 0 <= smoothing < 1 else None,
        vocab_size=int(size) if size is not None and 2 <= size <= MAX_VOCAB_SIZE else None,
        schedule=str(optimizer.get("schedule", ""))[:40],
        lr=_number(optimizer.get("lr")),
        warmup_steps=_number(optimizer.get("warmup_steps")),
        started_from=str(pretrained or "")[:200],
    )


def _read_samples(text: str) -> tuple[tuple[Sample, ...], tuple[int, ...]]:
    """Convert one table of samples per step to one history per sentence, and list the steps."""
    histories: dict[tuple[str, str], list[tuple[int, str]]] = {}
    steps: list[int] = []
    for table in re.split(r"(?m)^(?=## Step )", text)[1:]:
        heading = re.match(r"## Step ([\d,]+)", table)
        number = heading[1].replace(",", "") if heading else ""
        if not number.isdecimal() or len(number) > MAX_STEP_DIGITS:
            continue
        step = int(number)
        steps.append(step)
        rows = [line for line in table.split("\n") if line.startswith("| ")][1:]
        for row in rows:
            cells = [_unescape(cell) for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
            if len(cells) == 3:
                history = histories.setdefault((cells[0], cells[1]), [])
                if not history or history[-1][1] != cells[2]:
                    history.append((step, cells[2]))
    samples = tuple(Sample(*pair, tuple(history)) for pair, history in histories.items())
    return samples, tuple(steps)


def _unescape(cell: str) -> str:
    return html.unescape(re.sub(r"\\([\\`*_\[\]|~])", r"\1", cell.strip()))

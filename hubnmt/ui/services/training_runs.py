"""Read the metrics and sample translations of a training run for display.

Malformed lines are skipped, because the run may still be writing.
"""

import dataclasses
import html
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hubnmt.errors import InputError

METRICS, SAMPLES = "metrics.jsonl", "samples.md"

MAX_FILE_MIB = 20
"""Larger files are rejected; no training run writes one."""

Points = tuple[tuple[float, float], ...]
"""(step, value) pairs in the order of steps."""


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """Recorded data of one training run."""

    curves: dict[str, Points]
    """Name -> points; the recorded ones of `loss`, `dev_loss`, `bleu` and `chrf`."""
    samples: tuple["Sample", ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """Translations of one sentence at successive training steps."""

    src: str
    reference: str
    translations: tuple[tuple[int, str], ...]
    """(step, text), without steps whose translation did not change."""


def find_run(model_folder: Path | None) -> Path | None:
    """Find the record of a model's training: in the folder of its run, or in its own."""
    if model_folder is None:
        return None
    candidates = [model_folder]
    if model_folder.name in ("best", "last"):
        candidates.insert(0, model_folder.parent)
    return next((folder for folder in candidates if (folder / METRICS).is_file()), None)


def read_run(folder: Path) -> Run:
    """Read a run folder.

    Raises:
        InputError: if the folder contains no run.
    """
    if not (folder / METRICS).is_file():
        raise InputError(f"{METRICS} not found: this is not the folder of a training run")
    return Run(_read_curves(_read(folder / METRICS)), _read_samples(_read(folder / SAMPLES)))


def _read(path: Path) -> str:
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
    for record in _records(text):
        step = _number(record.get("step"))
        for name in ("loss", "dev_loss", "bleu", "chrf"):
            value = _number(record.get(name))
            if step is not None and value is not None:
                curves.setdefault(name, []).append((step, value))
    return {name: tuple(points) for name, points in curves.items()}


def _records(text: str) -> Iterator[dict[str, Any]]:
    for line in text.split("\n"):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            yield record


def _number(value: Any) -> float | None:
    """Return a finite number as a float; None for anything else."""
    is_number = isinstance(value, (int, float)) and abs(value) <= sys.float_info.max
    return float(value) if is_number else None


def _read_samples(text: str) -> tuple[Sample, ...]:
    """Convert one table of samples per step to one history per sentence."""
    histories: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for table in re.split(r"(?m)^(?=## Step )", text)[1:]:
        step = re.match(r"## Step ([\d,]+)", table)
        if step is None:
            continue
        rows = [line for line in table.split("\n") if line.startswith("| ")][1:]
        for row in rows:
            cells = [_unescape(cell) for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
            if len(cells) == 3:
                history = histories.setdefault((cells[0], cells[1]), [])
                if not history or history[-1][1] != cells[2]:
                    history.append((int(step[1].replace(",", "")), cells[2]))
    return tuple(Sample(*pair, tuple(history)) for pair, history in histories.items())


def _unescape(cell: str) -> str:
    """Invert `hubnmt.checkpoint.card.escape_cell`."""
    return html.unescape(re.sub(r"\\([\\`*_\[\]|~])", r"\1", cell.strip()))

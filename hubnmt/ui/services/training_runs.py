"""What a training run left behind, as the page shows it.

Takes a run folder, gives curves and the table of samples. Reads `metrics.jsonl` and `samples.md`
there and nothing else; a torn or foreign line is passed over, because a run may be going on. Must
not know Gradio, HTML, or how training works.
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
"""A larger file is not read: no run of ours writes one."""

Points = tuple[tuple[float, float], ...]
"""(step, value), in the order of the steps."""


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """A run, read."""

    curves: dict[str, Points]
    """`loss`, `dev_loss`, `bleu`, `chrf`: those that were recorded."""
    samples: tuple["Sample", ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """One sentence, as the model translated it on its way."""

    src: str
    reference: str
    translations: tuple[tuple[int, str], ...]
    """(step, text), those left out that did not change anything."""


def find_run(model_folder: Path | None) -> Path | None:
    """Find the run that a model folder came from: the folder itself, or the one it lies in."""
    if model_folder is None:
        return None
    candidates = [model_folder]
    if model_folder.name in ("best", "last"):
        candidates.append(model_folder.parent)
    return next((folder for folder in candidates if (folder / METRICS).is_file()), None)


def read_run(folder: Path) -> Run:
    """Read a run folder.

    Raises:
        InputError: if there is no run in it.
    """
    if not (folder / METRICS).is_file():
        raise InputError(f"there is no {METRICS} in this folder: it is not the folder of a run")
    return Run(_read_curves(_read(folder / METRICS)), _read_samples(_read(folder / SAMPLES)))


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_FILE_MIB * 2**20:
            raise InputError(f"{path.name} is larger than {MAX_FILE_MIB} MiB; it is not read here")
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
    """Read a number; None for what is none, not finite, or too large for a float."""
    is_number = isinstance(value, (int, float)) and abs(value) <= sys.float_info.max
    return float(value) if is_number else None


def _read_samples(text: str) -> tuple[Sample, ...]:
    """Turn tables of sentences, one per step, into one history per sentence."""
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
    """Undo `hubnmt.checkpoint.card.escape_cell`."""
    return html.unescape(re.sub(r"\\([\\`*_\[\]|~])", r"\1", cell.strip()))

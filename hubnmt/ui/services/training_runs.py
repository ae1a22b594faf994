"""Read the metrics, sample translations and attention of a training run for display.

Malformed lines are skipped, because the run may still be writing.
"""

import dataclasses
import html
import json
import re
from pathlib import Path
from typing import Any, TypeGuard

from hubnmt.checkpoint.files import CARD, METRICS, SAMPLES
from hubnmt.text.textfile import read_small

MAX_FILE_BYTES = 20 * 2**20  # no training run writes a larger file

MAX_NUMBER = 1e12
"""Larger numbers do not come from a training run, and would compress a chart's axes."""

LOSSES = {"loss": "training", "dev_loss": "validation"}
SCORES = {"bleu": "BLEU", "chrf": "chrF"}
"""Recorded values, and their names in a chart."""


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """Recorded data of one training run."""

    points: list[tuple[float, str, float]]
    """Step, name and value of what is recorded of `LOSSES` and `SCORES`."""
    validations: list[dict[str, Any]]
    """`step`, `samples` as (source, reference, translation), and the `attention` of the first."""
    started_from: str = ""
    """Name of the pretrained model; empty if trained from scratch, or not recorded."""


def find_run(model_folder: Path | None) -> Path | None:
    """Find the record of a model's training: in the folder of its run, or in its own."""
    folders = [model_folder] if model_folder else []
    if model_folder and model_folder.name in ("best", "last"):
        folders.insert(0, model_folder.parent)
    return next((folder for folder in folders if (folder / METRICS).is_file()), None)


def read_run(folder: Path) -> Run:
    """Read a run folder, or the record in a model folder."""
    maps = {record.get("step"): record for record in read_records(folder / "attention.jsonl")}
    samples = _read_samples(read_text(folder / SAMPLES))
    card = read_text(folder / CARD) or read_text(folder / "best" / CARD)
    started = re.search(r"(?m)^- started from: (.{1,200})$", card)
    return Run(
        _read_points(folder / METRICS),
        [{"step": n, "samples": rows, "attention": maps.get(n)} for n, rows in samples.items()],
        started[1] if started else "",
    )


def read_text(path: Path) -> str:
    """Return the text of a file of a run; empty if there is none."""
    return read_small(path, MAX_FILE_BYTES).decode(errors="replace") if path.is_file() else ""


def read_json(path: Path) -> dict[str, Any]:
    """Return the values in a file of a run; empty if there is none, or if it is being written."""
    return _parse(read_text(path))


def read_records(path: Path) -> list[dict[str, Any]]:
    """Return the JSON objects of a file with one a line."""
    return [record for line in read_text(path).split("\n") if (record := _parse(line))]


def _parse(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _read_points(path: Path) -> list[tuple[float, str, float]]:
    return [
        (step, name, value)
        for record in read_records(path)
        for key, name in (LOSSES | SCORES).items()
        if _is_number(step := record.get("step")) and _is_number(value := record.get(key))
    ]


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and abs(value) <= MAX_NUMBER


def _read_samples(text: str) -> dict[int, list[list[str]]]:
    """Return the table of samples of each step."""
    samples = {}
    for table in re.split(r"(?m)^## Step ", text)[1:]:
        if number := re.match(r"\d[\d,]{,15}", table, re.ASCII):
            lines = [line for line in table.split("\n") if line.startswith("| ")][1:]
            rows = [[*map(_unescape, re.split(r"(?<!\\)\|", line)[1:-1])] for line in lines]
            samples[int(number[0].replace(",", ""))] = [row for row in rows if len(row) == 3]
    return samples


def _unescape(cell: str) -> str:
    return html.unescape(re.sub(r"\\([\\`*_\[\]|~])", r"\1", cell.strip()))

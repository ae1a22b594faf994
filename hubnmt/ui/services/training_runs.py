"""Read the metrics and sample translations of a training run for display.

Malformed lines are skipped, because the run may still be writing.
"""

import dataclasses
import html
import json
import re
from pathlib import Path
from typing import Any, TypeGuard

from hubnmt.errors import InputError

METRICS, SAMPLES, RECIPE, CARD = "metrics.jsonl", "samples.md", "recipe.json", "README.md"

MAX_FILE_MIB = 20
"""Larger files are rejected; no training run writes one."""

MAX_SAMPLES, MAX_SAMPLE_CHARS = 20, 1_000
"""Sentences sent to the page, and the characters of each text."""

MAX_NUMBER = 1e12
"""Larger numbers do not come from a training run, and would compress a chart's axes."""

CURVES = ("loss", "dev_loss", "bleu", "chrf")

Points = tuple[tuple[float, float], ...]
"""(step, value) pairs in the order of steps."""

Sample = dict[str, Any]
"""`src`, `reference`, and `translations` as (step, text), without steps that did not change it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """Recorded data of one training run."""

    curves: dict[str, Points]
    """Name -> points; the recorded ones of `CURVES`."""
    samples: list[Sample]
    sample_steps: tuple[int, ...] = ()
    """Steps at which the samples were translated, in order."""
    started_from: str = ""
    """Name of the pretrained model; empty if trained from scratch, or not recorded."""


def samples_figure(run: Run) -> dict[str, Any] | None:
    """Return the samples as the page's slider shows them; None if there are none.

    Returns:
        `steps`, each with its validation loss and BLEU, if they are recorded, and `sentences`.
    """
    if not run.samples:
        return None
    losses, scores = (dict(run.curves.get(name, ())) for name in ("dev_loss", "bleu"))
    steps = [
        {"step": step, "dev_loss": losses.get(step), "bleu": scores.get(step)}
        for step in run.sample_steps
    ]
    sentences = run.samples[:MAX_SAMPLES]
    return {"steps": steps, "sentences": sentences, "n_sentences": len(run.samples)}


def find_run(model_folder: Path | None) -> Path | None:
    """Find the record of a model's training: in the folder of its run, or in its own."""
    folders = [model_folder] if model_folder else []
    if model_folder and model_folder.name in ("best", "last"):
        folders.insert(0, model_folder.parent)
    return next((folder for folder in folders if (folder / METRICS).is_file()), None)


def read_run(folder: Path) -> Run:
    """Read a run folder."""
    samples, steps = _read_samples(read_text(folder / SAMPLES))
    return Run(_read_curves(read_text(folder / METRICS)), samples, steps, _read_start(folder))


def read_text(path: Path) -> str:
    """Return the text of a file of a run; empty if there is none."""
    if not path.is_file():
        return ""
    if path.stat().st_size > MAX_FILE_MIB * 2**20:
        raise InputError(f"{path.name} is larger than the limit of {MAX_FILE_MIB} MiB")
    return path.read_text(encoding="utf-8", errors="replace")


def _read_curves(text: str) -> dict[str, Points]:
    curves: dict[str, list[tuple[float, float]]] = {}
    for line in text.split("\n"):
        record = parse_record(line)
        for name in CURVES:
            step, value = record.get("step"), record.get(name)
            if _is_number(step) and _is_number(value):
                curves.setdefault(name, []).append((step, value))
    return {name: tuple(points) for name, points in curves.items()}


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and abs(value) <= MAX_NUMBER


def read_json(path: Path) -> dict[str, Any]:
    """Return the values in a file of a run; empty if there is none, or if it is being written."""
    return parse_record(read_text(path))


def parse_record(text: str) -> dict[str, Any]:
    """Return the values of a JSON object; empty if it is none, or torn."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _read_start(folder: Path) -> str:
    """Return the model that training started from, from the run's recipe or the model's card."""
    settings = read_json(folder / RECIPE).get("run")
    if isinstance(settings, dict):
        return str(settings.get("pretrained") or "")[:200]
    started = re.search(r"(?m)^- started from: (.{1,200})$", read_text(folder / CARD))
    return started[1] if started else ""


def _read_samples(text: str) -> tuple[list[Sample], tuple[int, ...]]:
    """Convert one table of samples per step to one history per sentence, and list the steps."""
    samples: dict[tuple[str, ...], Sample] = {}
    steps = []
    for table in re.split(r"(?m)^(?=## Step )", text)[1:]:
        heading = re.match(r"## Step (\d[\d,]{,15})", table, re.ASCII)
        if heading is None:
            continue
        step = int(heading[1].replace(",", ""))
        steps.append(step)
        rows = [line for line in table.split("\n") if line.startswith("| ")][1:]
        for row in rows:
            cells = [_unescape(cell) for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
            if len(cells) == 3:
                src, reference, made = cells
                new = {"src": src, "reference": reference, "translations": []}
                history = samples.setdefault((src, reference), new)["translations"]
                if not history or history[-1][1] != made:
                    history.append([step, made])
    return [*samples.values()], tuple(steps)


def _unescape(cell: str) -> str:
    return html.unescape(re.sub(r"\\([\\`*_\[\]|~])", r"\1", cell.strip()))[:MAX_SAMPLE_CHARS]

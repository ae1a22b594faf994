"""The report of a run: metrics.jsonl, samples.md, TensorBoard, throughput and peak memory."""

import contextlib
import json
import logging
import math
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from hubnmt.checkpoint.card import escape_cell
from training.files import replace_text, reporting_full_disk

try:  # TensorBoard is optional
    from torch.utils.tensorboard import SummaryWriter
except ImportError:
    SummaryWriter = None  # type: ignore[assignment,misc]  # optional dependency

log = logging.getLogger("training")


class RunReport:
    """Writes metrics and samples; files are append-only and continued on resume."""

    def __init__(self, folder: Path, *, step: int = -1) -> None:
        """Open the run's files for appending, and remove records after a step.

        A killed run may have logged steps after its last checkpoint.

        Raises:
            ModelFolderError: if the disk is full; all writing methods raise it, too.
        """
        self._folder = folder
        self._board: SummaryWriter | None = None
        self._board_folder = folder / "tensorboard"
        self._rewind(step)
        if SummaryWriter is not None:
            with reporting_full_disk(self._board_folder):
                self._board = SummaryWriter(str(self._board_folder), purge_step=step + 1)
        else:
            log.warning("tensorboard is not installed; metrics are in metrics.jsonl only")

    def add(self, step: int, kind: str, values: Mapping[str, Any]) -> None:
        """Record one set of metrics.

        Args:
            step: optimizer step.
            kind: `train` or `valid`.
            values: numbers are also sent to TensorBoard; texts go to the file only.
        """
        finite = {name: _finite(value) for name, value in values.items()}
        record = {"step": step, "kind": kind, "time": round(time.time(), 1), **finite}
        self._append("metrics.jsonl", json.dumps(record) + "\n")
        with self._tensorboard() as board:
            for name, value in values.items():
                if board is not None and isinstance(value, (int, float)):
                    board.add_scalar(f"{kind}/{name}", value, step)

    def add_samples(self, step: int, rows: Sequence[tuple[str, str, str]]) -> None:
        """Append translations of a fixed set of sentences: (source, reference, translation)."""
        exists = (self._folder / "samples.md").exists()
        lines = [] if exists else ["# The same sentences as the model learns\n"]
        lines += [f"\n## Step {step:,}\n", "| source | reference | translation |", "|---|---|---|"]
        lines += ["| " + " | ".join(map(escape_cell, row)) + " |" for row in rows]
        self._append("samples.md", "\n".join(lines) + "\n")
        with self._tensorboard() as board:
            if board is not None:
                board.add_text("samples", "\n".join(lines[-len(rows) - 2 :]), step)

    def _rewind(self, step: int) -> None:
        metrics, samples = self._folder / "metrics.jsonl", self._folder / "samples.md"
        if metrics.exists():
            lines = metrics.read_text(encoding="utf-8").splitlines(keepends=True)
            kept = [line for line in lines if _step_of(line) <= step]
            replace_text(metrics, "".join(kept))
        if samples.exists():
            head, *tables = re.split(r"(?m)^(?=## Step )", samples.read_text(encoding="utf-8"))
            kept = [table for table in tables if _table_step(table) <= step]
            replace_text(samples, head + "".join(kept))

    def close(self) -> None:
        """Close TensorBoard."""
        with self._tensorboard() as board:
            if board is not None:
                board.close()

    @contextlib.contextmanager
    def _tensorboard(self) -> "Iterator[SummaryWriter | None]":
        with reporting_full_disk(self._board_folder):
            yield self._board

    def _append(self, name: str, text: str) -> None:
        path = self._folder / name
        with reporting_full_disk(path), path.open("a", encoding="utf-8") as file:
            file.write(text)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _step_of(line: str) -> float:
    """Return the step of a record; infinity for a truncated line."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return math.inf


def _table_step(table: str) -> float:
    number = re.match(r"## Step ([\d,]+)", table)
    return float(number.group(1).replace(",", "")) if number else math.inf


if sys.platform == "win32":
    import psutil
else:
    import resource


class Throughput:
    """Mean loss and tokens per second since the last log line."""

    def __init__(self) -> None:
        """Start the clock."""
        self._started = time.monotonic()
        self._loss = 0.0
        self._n_tokens = 0

    def add(self, loss: float, n_tokens: int) -> None:
        """Add one step."""
        self._loss += loss * n_tokens
        self._n_tokens += n_tokens

    def pause(self, seconds: float) -> None:
        """Exclude time not spent on training, such as a validation."""
        self._started += seconds

    def to_dict(self) -> dict[str, float]:
        """Return nats per token and target tokens per second."""
        seconds = max(time.monotonic() - self._started, 1e-9)
        n_tokens = max(self._n_tokens, 1)
        return {"loss": self._loss / n_tokens, "tokens_per_s": n_tokens / seconds}


def peak_memory_mib(device: torch.device) -> float:
    """Return the peak memory in MiB: allocated on the GPU, or resident on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    if sys.platform == "win32":
        return psutil.Process().memory_info().peak_wset / 2**20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)  # bytes there, KiB elsewhere

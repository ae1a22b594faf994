"""The run as people read it: metrics.jsonl, samples.md, TensorBoard, and a tracker if asked for.

Takes numbers, texts and attention as they come, gives files in the run folder. Must not know the
optimizer.
"""

import contextlib
import json
import logging
import math
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hubnmt.attention.maps import Attention
from hubnmt.checkpoint.card import escape_cell
from training.files import replace_text, telling_full_disk
from training.run.pictures import draw_heads
from training.run.run_dir import read_records
from training.run.tracking import Tracker

try:  # curves are a convenience: a machine without TensorBoard trains all the same
    from torch.utils.tensorboard import SummaryWriter
except ImportError:
    SummaryWriter = None  # type: ignore[assignment,misc]  # an optional dependency

log = logging.getLogger(__name__)


class Best(NamedTuple):
    """The validation whose weights `best/` holds."""

    step: int
    bleu: float


class RunReport:
    """Writes what happens in a run; every file only grows, so a resumed run continues them."""

    def __init__(self, folder: Path, tracker: Tracker | None = None, *, step: int = -1) -> None:
        """Open the run's files for appending, and forget what was recorded behind a step.

        A killed run wrote more than its state knows.

        Args:
            folder: the run's.
            tracker: gets the numbers, too.
            step: the last whose records stay.

        Raises:
            ModelFolderError: if the disk is full, here and wherever something is written.
        """
        self._folder = folder
        self._tracker = tracker
        self._board: SummaryWriter | None = None
        self._board_folder = folder / "tensorboard"
        self._hook = threading.excepthook
        self._rewind(step)
        if SummaryWriter is not None:
            threading.excepthook = self._hear
            with telling_full_disk(self._board_folder):
                self._board = SummaryWriter(str(self._board_folder), purge_step=step + 1)
        else:
            log.warning("tensorboard is not installed: no curves, metrics.jsonl has the numbers")

    def add(self, step: int, kind: str, values: Mapping[str, Any]) -> None:
        """Record one set of numbers.

        Args:
            step: optimizer step.
            kind: `train` or `valid`.
            values: numbers become curves, texts only go to the file.
        """
        finite = {name: _finite(value) for name, value in values.items()}
        record = {"step": step, "kind": kind, "time": round(time.time(), 1), **finite}
        self._append("metrics.jsonl", json.dumps(record) + "\n")
        with self._drawing() as board:
            for name, value in values.items():
                if board is not None and isinstance(value, (int, float)):
                    board.add_scalar(f"{kind}/{name}", value, step)
        if self._tracker is not None:
            self._tracker.add(step, kind, values)

    def add_samples(self, step: int, rows: Sequence[tuple[str, str, str]]) -> None:
        """Append translations of the same few sentences: (source, reference, translation)."""
        exists = (self._folder / "samples.md").exists()
        lines = [] if exists else ["# The same sentences as the model learns\n"]
        lines += [f"\n## Step {step:,}\n", "| source | reference | translation |", "|---|---|---|"]
        lines += ["| " + " | ".join(map(escape_cell, row)) + " |" for row in rows]
        self._append("samples.md", "\n".join(lines) + "\n")
        with self._drawing() as board:
            if board is not None:
                board.add_text("samples", "\n".join(lines[-len(rows) - 2 :]), step)

    def add_attention(self, step: int, attention: Attention) -> None:
        """Draw the cross-attention of one sentence pair, with its tokens as text beside it."""
        columns, rows = (
            " ".join(f"`{token.strip() or '␣'}`" for token in tokens)
            for tokens in (attention.src_tokens, attention.tgt_tokens)
        )
        text = f"rows of pictures: layers; columns: heads\n\nrows: {rows}\n\ncolumns: {columns}"
        with self._drawing() as board:
            if board is not None:
                board.add_image("attention/cross", draw_heads(attention.cross), step)
                board.add_text("attention/tokens", text, step)

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

    def scores(self) -> dict[int, float]:
        """Return the BLEU of every validation on record by its step, also of earlier sittings."""
        records = read_records(self._folder)
        return {each["step"]: each["bleu"] for each in records if each.get("kind") == "valid"}

    def close(self) -> None:
        """Flush the curves."""
        try:
            with self._drawing() as board:
                if board is not None:
                    board.close()
        finally:
            if threading.excepthook == self._hear:
                threading.excepthook = self._hook
        if self._tracker is not None:
            self._tracker.close()

    def _hear(self, failed: threading.ExceptHookArgs) -> None:
        """Print no traceback when the board's thread cannot write: the next call raises the same.

        What fails in other threads goes where it went before.
        """
        is_board = type(failed.thread).__module__.partition(".")[0] == "tensorboard"
        if not (is_board and isinstance(failed.exc_value, OSError)):
            self._hook(failed)

    @contextlib.contextmanager
    def _drawing(self) -> "Iterator[SummaryWriter | None]":
        """Offer the board if there is one; it tells of a full disk only at a later call."""
        with telling_full_disk(self._board_folder):
            yield self._board

    def _append(self, name: str, text: str) -> None:
        path = self._folder / name
        with telling_full_disk(path), path.open("a", encoding="utf-8") as file:
            file.write(text)


def _finite(value: Any) -> Any:
    """Return null for a number JSON cannot hold."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _step_of(line: str) -> float:
    """Read the step of a record; a torn line belongs to no step."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return math.inf


def _table_step(table: str) -> float:
    number = re.match(r"## Step ([\d,]+)", table)
    return float(number.group(1).replace(",", "")) if number else math.inf

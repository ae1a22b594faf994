"""The record of a run that travels with its model: metrics, sample translations, TensorBoard."""

import math
import re
from collections.abc import Sequence
from pathlib import Path

from hubnmt.checkpoint.files import BOARD, MAX_BOARD_MIB, MAX_RECORD_MIB, METRICS, SAMPLES
from training.files import replace_text, reporting_full_disk


def add_records(run_dir: Path, model_folder: Path) -> None:
    """Copy metrics, sample translations and TensorBoard events of a run into a model folder.

    Metrics and samples above the limit are subsampled evenly, larger events are left out.
    """
    limit = MAX_RECORD_MIB * 2**20
    if (run_dir / METRICS).is_file():
        lines = (run_dir / METRICS).read_text(encoding="utf-8").splitlines(keepends=True)
        replace_text(model_folder / METRICS, _subsample(lines, limit))
    if (run_dir / SAMPLES).is_file():
        text = (run_dir / SAMPLES).read_text(encoding="utf-8")
        head, *tables = re.split(r"(?m)^(?=## Step )", text)
        replace_text(model_folder / SAMPLES, head + _subsample(tables, limit - len(head.encode())))
    files = sorted((run_dir / "tensorboard").glob("*tfevents*"))
    if files and sum(file.stat().st_size for file in files) <= MAX_BOARD_MIB * 2**20:
        target = model_folder / BOARD
        with reporting_full_disk(target):
            target.parent.mkdir(exist_ok=True)
            # Event files are sequences of records, so they can be joined.
            target.write_bytes(b"".join(file.read_bytes() for file in files))


def _subsample(parts: Sequence[str], limit: int) -> str:
    """Join every n-th part, the last included, so that they fit into a number of bytes."""
    size = sum(len(part.encode()) for part in parts)
    n = max(1, math.ceil(size / limit))
    while n < len(parts) and sum(len(part.encode()) for part in parts[::-n]) > limit:
        n += 1
    return "".join(parts[::-n][::-1])

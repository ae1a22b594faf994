"""Everything a run needs to go on as if it had never stopped.

Takes the moving parts of a run, gives files in its folder, and back. Must not know the Hub. A file
is written beside its place, flushed to the disk, and moved there in one step, so a torn one is
never taken for a state. FoldedCrossAttention uses `weights_only`: tensors and plain values, no code.

`state.pt` is written often; the snapshots of past weights change at validations only and lie in
files of their own, `snapshots/STEP.pt`, which are there before the state that names them.
"""

import ast
import dataclasses
import os
import pickle
import random
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from hubnmt.errors import ModelFolderError
from training.data.loader import Position
from training.files import explain_failed_save
from training.optim.averaging import MovingAverage, Weights
from training.optim.step import Stepper
from training.run.run_dir import STATE_FILE

SNAPSHOT_FOLDER = "snapshots"
FORMAT_VERSION = 2
"""Version 1, which had no number, held the snapshots within `state.pt`."""
_BROKEN = (
    OSError,
    EOFError,
    AttributeError,
    LookupError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What torch and we raise on a file that is torn, foreign, or a state of another model."""


@dataclasses.dataclass(slots=True)
class Progress:
    """Where a run stands."""

    step: int = 0
    """Optimizer steps done."""
    epoch: int = 0
    """Passes over the data begun, counted from 0."""
    batch: int = 0
    """Batches of this epoch done, those of all processes."""
    seconds: float = 0.0
    """Training time, validations included, over all sittings."""
    best_bleu: float = -1.0
    """Best BLEU of the validations whose turn it was, which patience goes by."""
    best_step: int = 0
    """Its step; `best/` may hold a better one, of a validation that ended a sitting."""
    n_worse: int = 0
    """Validations since then whose turn it was."""
    n_skipped: int = 0
    """Steps that float16 overflowed."""
    snapshots: dict[int, Weights] = dataclasses.field(default_factory=dict)
    """The last weights by their step, for averaging; oldest first."""

    @property
    def position(self) -> Position:
        """Where in the data the run stands."""
        return Position(self.epoch, self.batch)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """What moves in a run; a state restores it in place."""

    stepper: Stepper
    moving_average: MovingAverage | None = None
    """None where another way of averaging is judged."""


def random_states() -> dict[str, Any]:
    """Read the random generators of this process."""
    on_gpu = torch.cuda.is_available()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state() if on_gpu else None,
        "python": list(random.getstate()),
    }


def save_state(
    folder: Path, parts: Parts, progress: Progress, *, generators: Sequence[dict[str, Any]]
) -> None:
    """Write the run's state, atomically.

    Args:
        folder: the run's.
        parts: model, optimizer, averages.
        progress: where the run stands.
        generators: `random_states` of each process.

    Raises:
        ModelFolderError: if the disk is full or gone; what was saved before is whole.
    """
    snapshots = folder / SNAPSHOT_FOLDER
    for step, weights in progress.snapshots.items():
        # One of this very step may be left from a sitting that was killed: write it anew.
        if step == progress.step or not _snapshot_path(folder, step).is_file():
            _write(_snapshot_path(folder, step), weights)
    average = parts.moving_average
    values = {field.name: getattr(progress, field.name) for field in dataclasses.fields(Progress)}
    state = {
        "format_version": FORMAT_VERSION,
        "model": parts.stepper.model.state_dict(),
        "optimizer": parts.stepper.optimizer.state_dict(),
        "scaler": parts.stepper.scaler.state_dict(),
        "moving_average": None if average is None else average.weights,
        "progress": values | {"snapshots": list(progress.snapshots)},
        "generators": list(generators),
    }
    _write(folder / STATE_FILE, state)
    wanted = {_snapshot_path(folder, step).name for step in progress.snapshots}
    for path in snapshots.glob("*.pt"):
        if path.name not in wanted:
            path.unlink()


def load_state(folder: Path, parts: Parts, *, rank: int = 0) -> Progress:
    """Restore the parts and the random generators of one process in place.

    A run that goes on with more processes than it had gives the new ones generators of their own.

    Raises:
        ModelFolderError: if there is no whole state file.
    """
    path = folder / STATE_FILE
    if not path.is_file():
        raise ModelFolderError(f"{path}: no such file; this run cannot be resumed")
    try:
        state = _migrate(_read(path))
        if state["format_version"] != FORMAT_VERSION:
            raise ModelFolderError(
                f"{path}: format_version {state['format_version']!r} is not {FORMAT_VERSION}; "
                "go on with the hubnmt that wrote it"
            )
        progress = Progress(**state["progress"])
        if not isinstance(progress.snapshots, dict):
            progress.snapshots = {
                step: _read(_snapshot_path(folder, step)) for step in state["progress"]["snapshots"]
            }
        _restore(parts, state, rank=rank)
    except ModelFolderError:
        raise
    except _BROKEN as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelFolderError(f"{path}: not a whole state of this run ({first})") from error
    return progress


def _read(path: Path) -> Any:
    """Read tensors and plain values, if every byte is as it was written; torch does not look.

    Raises:
        ValueError: if the checksum of a part is not the one that is stored with it.
    """
    with zipfile.ZipFile(path) as archive:
        changed = archive.testzip()
    if changed is not None:
        raise ValueError(f"{changed} has changed since it was saved")
    return torch.load(path, map_location="cpu", weights_only=True)


def _restore(parts: Parts, state: dict[str, Any], *, rank: int) -> None:
    stepper = parts.stepper
    if len(state["optimizer"]["param_groups"]) != len(stepper.optimizer.param_groups):
        raise ValueError("weight decay was for norms, biases and embeddings, too, and is no more")
    stepper.model.load_state_dict(state["model"])
    stepper.optimizer.load_state_dict(state["optimizer"])
    if state["scaler"]:  # only float16 has a scale
        stepper.scaler.load_state_dict(state["scaler"])
    if parts.moving_average is not None:
        parts.moving_average.restore(state["moving_average"])
    if rank < len(state["generators"]):
        _set_random_states(state["generators"][rank])


def _set_random_states(states: dict[str, Any]) -> None:
    version, numbers, gauss = states["python"]
    random.setstate((version, tuple(numbers), gauss))
    torch.set_rng_state(states["torch"])
    if states["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])


def _migrate(state: dict[str, Any]) -> dict[str, Any]:
    """Read version 1 as if it were written today."""
    if "format_version" in state:
        return state
    progress, every = state["progress"], state["progress"]["snapshots"]
    # The steps of the snapshots were not written down; any rising numbers keep their order.
    snapshots = {progress["step"] - len(every) + 1 + i: each for i, each in enumerate(every)}
    cuda = state["cuda_rng"][0] if state["cuda_rng"] else None
    python = state["python_rng"]
    python = ast.literal_eval(python) if isinstance(python, str) else python  # the very first
    generators = {"torch": state["torch_rng"], "cuda": cuda, "python": python}
    return {
        "format_version": FORMAT_VERSION,
        "model": state["model"],
        "optimizer": state["optimizer"],
        "scaler": {},
        "moving_average": None,
        "progress": progress | {"snapshots": snapshots},
        "generators": [generators],
    }


def _snapshot_path(folder: Path, step: int) -> Path:
    return folder / SNAPSHOT_FOLDER / f"{step:08d}.pt"


def _write(path: Path, value: Any) -> None:
    """Write a file whole or not at all."""
    draft = path.with_name(f".{path.name}.draft")
    try:
        path.parent.mkdir(exist_ok=True)
        with draft.open("wb") as file:
            torch.save(value, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        if os.name == "posix":  # Windows opens no folders
            folder = os.open(path.parent, os.O_RDONLY)
            os.fsync(folder)  # the new name must outlive a power cut, too
            os.close(folder)
    except (OSError, RuntimeError) as error:  # torch's writer tells a full disk either way
        raise explain_failed_save(path, error) from error
    finally:
        draft.unlink(missing_ok=True)  # what a full disk needs least

"""Everything a run needs to go on as if it had never stopped.

Takes model, optimizer and progress, gives one file, and back. Must not know the Hub. A save is
written beside its place, flushed to the disk, and moved there in one step, so a torn file is never
taken for a state. Reading uses `weights_only`: tensors and plain values, no code.
"""

import dataclasses
import os
import pickle
import random
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hubnmt.errors import ModelFolderError

STATE_FILE = "state.pt"
_BROKEN = (
    OSError,
    EOFError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
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
    """Batches of this epoch done."""
    seconds: float = 0.0
    """Training time, validations included, over all sittings."""
    best_bleu: float = -1.0
    """Best validation BLEU so far."""
    best_step: int = 0
    """Step of the best BLEU."""
    n_worse: int = 0
    """Validations since the best."""
    snapshots: list[dict[str, Tensor]] = dataclasses.field(default_factory=list)
    """The last weights, for averaging; oldest first."""


def save_state(
    folder: Path, *, model: torch.nn.Module, optimizer: torch.optim.Optimizer, progress: Progress
) -> None:
    """Write the run's state, atomically."""
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "progress": {
            field.name: getattr(progress, field.name) for field in dataclasses.fields(Progress)
        },
        "torch_rng": torch.get_rng_state(),
        "cuda_rng": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "python_rng": list(random.getstate()),
    }
    draft = folder / f".{STATE_FILE}.draft"
    with draft.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(folder / STATE_FILE)


def load_state(
    folder: Path, *, model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> Progress:
    """Restore model, optimizer and random state in place.

    Raises:
        ModelFolderError: if there is no whole state file.
    """
    path = folder / STATE_FILE
    if not path.is_file():
        raise ModelFolderError(f"{path}: no such file; this run cannot be resumed")
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        progress = Progress(**state["progress"])
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        version, numbers, gauss = state["python_rng"]
        random.setstate((version, tuple(numbers), gauss))
        torch.set_rng_state(state["torch_rng"])
        if state["cuda_rng"] and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(state["cuda_rng"])
    except _BROKEN as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelFolderError(f"{path}: not a whole state of this run ({first})") from error
    return progress


def average(snapshots: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Average weights element by element.

    Source: Vaswani et al. 2017, section 6.1 (they average the last 5 checkpoints).
    """
    return {
        name: torch.stack([snapshot[name] for snapshot in snapshots]).mean(0)
        for name in snapshots[0]
    }

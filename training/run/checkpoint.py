"""Checkpoints: everything needed to resume a run exactly; copies and averages of weights.

They are loaded with `weights_only`, so they hold tensors and plain values but no code. `state.pt`
is written often; weight snapshots change at validations only and have files of their own,
`snapshots/STEP.pt`, written before the state that names them.
"""

import copy
import dataclasses
import random
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hubnmt.errors import ModelFolderError
from hubnmt.model.transformer import Transformer, rename_weights
from training.data.loader import Position
from training.files import replace_file
from training.optim.step import Stepper

STATE_FILE = "state.pt"
SNAPSHOT_FOLDER = "snapshots"

Weights = dict[str, Tensor]
"""Detached parameters by name; tied ones appear once, under their first name."""


@dataclasses.dataclass(slots=True)
class Progress:
    """Progress of a run."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    """Training time over all sessions, validations included."""
    validation_s: float = 0.0
    best_bleu: float = -1.0
    """BLEU of the best scheduled validation, used for early stopping."""
    best_chrf: float = -1.0
    best_step: int = 0
    """Its step; `best/` may hold a better model, validated at the end of a session."""
    n_worse: int = 0
    """Scheduled validations since `best_step`."""
    snapshots: dict[int, Weights] = dataclasses.field(default_factory=dict)
    """Recent weights by step, for averaging; oldest first."""

    @property
    def position(self) -> Position:
        """Position in the training data."""
        return Position(self.epoch, self.batch)


def random_states() -> dict[str, Any]:
    """Return the states of this process's random generators."""
    on_gpu = bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]  # torch's own
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state() if on_gpu else None,
        "python": list(random.getstate()),
    }


def save_state(
    folder: Path, stepper: Stepper, progress: Progress, *, generators: Sequence[dict[str, Any]]
) -> None:
    """Write the run's state, atomically; after an error the files saved before stay valid."""
    for step, weights in progress.snapshots.items():
        # A snapshot of this step may be left from a killed session: overwrite it.
        if step == progress.step or not _snapshot_path(folder, step).is_file():
            replace_file(_snapshot_path(folder, step), partial(torch.save, weights))
    values = {field.name: getattr(progress, field.name) for field in dataclasses.fields(Progress)}
    state = {
        "model": stepper.model.state_dict(),
        "optimizer": stepper.optimizer.state_dict(),
        "progress": values | {"snapshots": list(progress.snapshots)},
        "generators": list(generators),
    }
    replace_file(folder / STATE_FILE, partial(torch.save, state))
    wanted = {_snapshot_path(folder, step) for step in progress.snapshots}
    for path in {*(folder / SNAPSHOT_FOLDER).glob("*.pt")} - wanted:
        path.unlink()


def load_state(folder: Path, stepper: Stepper, *, rank: int = 0) -> Progress:
    """Restore model, optimizer and the random generators of one process in place.

    If there are more processes than before, the additional ones keep their own generators.

    Raises:
        ModelFolderError: if the state file is missing or damaged.
    """
    path = folder / STATE_FILE
    if not path.is_file():
        raise ModelFolderError(f"{path}: no such file; this run cannot be resumed")
    try:
        state = _read(path)
        values = {
            field.name: state["progress"][field.name] for field in dataclasses.fields(Progress)
        }
        paths = {step: _snapshot_path(folder, step) for step in values["snapshots"]}
        snapshots = {step: rename_weights(_read(path)) for step, path in paths.items()}
        progress = Progress(**values | {"snapshots": snapshots})
        stepper.model.load_state_dict(rename_weights(state["model"]))
        stepper.optimizer.load_state_dict(state["optimizer"])
        for states in state["generators"][rank : rank + 1]:
            _set_random_states(states)
    except Exception as error:  # a truncated or foreign file can fail in any way
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelFolderError(f"{path}: damaged, or not a state of this run ({first})") from error
    return progress


def _read(path: Path) -> Any:
    """Load tensors and plain values after verifying checksums, which torch does not do."""
    with zipfile.ZipFile(path) as archive:
        changed = archive.testzip()
    if changed is not None:
        raise ValueError(f"{changed} has changed since it was saved")
    return torch.load(path, map_location="cpu", weights_only=True)


def _set_random_states(states: dict[str, Any]) -> None:
    version, numbers, gauss = states["python"]
    random.setstate((version, tuple(numbers), gauss))
    torch.set_rng_state(states["torch"])
    if states["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])


def _snapshot_path(folder: Path, step: int) -> Path:
    return folder / SNAPSHOT_FOLDER / f"{step:08d}.pt"


# --- weights -------------------------------------------------------------------------------------


def copy_weights(model: Transformer) -> Weights:
    """Return a copy of the weights in main memory."""
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in model.named_parameters()}


def with_weights(model: Transformer, weights: Mapping[str, Tensor]) -> Transformer:
    """Return a copy of a model, in eval mode, with other weights."""
    twin = copy.deepcopy(model)  # a new model would advance the run's random generator
    put_weights(twin, weights)
    return twin.eval()


def put_weights(model: Transformer, weights: Mapping[str, Tensor]) -> None:
    """Replace the weights of a model, in place."""
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            tensor.copy_(weights[name])


def average(snapshots: Iterable[Mapping[str, Tensor]]) -> Weights:
    """Average weights element by element; the names are those of the last snapshot.

    Source: Vaswani et al. 2017, section 6.1 (they average the last 5 checkpoints).
    """
    rows = list(snapshots)
    return {name: torch.stack([row[name] for row in rows]).mean(0) for name in rows[-1]}

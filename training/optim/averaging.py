"""Which weights are judged: as they stand, a moving average, or the mean of the last snapshots.

Takes a model in training, gives named tensors to put into a copy of it. Must not know files or
scores. Averages end up in flatter places than the last step does, which costs nothing but memory.
"""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from hubnmt.checkpoint.folder import own_tensors
from hubnmt.model import Transformer

Weights = dict[str, Tensor]
"""Each parameter once (tied ones under their first name), detached."""


def copy_weights(model: Transformer) -> Weights:
    """Take a snapshot that later steps leave alone; it lies in main memory."""
    return {
        name: tensor.detach().to("cpu", copy=True) for name, tensor in own_tensors(model).items()
    }


def with_weights(model: Transformer, weights: Mapping[str, Tensor]) -> Transformer:
    """Return a copy of a model, in eval mode, with other weights."""
    twin = copy.deepcopy(model)  # building a new one would draw from the run's random numbers
    put_weights(twin, weights)
    return twin.eval()


def put_weights(model: Transformer, weights: Mapping[str, Tensor]) -> None:
    """Replace the weights of a model, in place."""
    with torch.no_grad():
        for name, tensor in own_tensors(model).items():
            tensor.copy_(weights[name])


def average(snapshots: Iterable[Mapping[str, Tensor]]) -> Weights:
    """Average weights element by element; the names are those of the last.

    Source: Vaswani et al. 2017, section 6.1 (they average the last 5 checkpoints).
    """
    rows = list(snapshots)
    return {name: torch.stack([row[name] for row in rows]).mean(0) for name in rows[-1]}


def describe_judged(run: Mapping[str, Any]) -> str:
    """Say in words which weights a run's `best/` holds, from the `[run]` section of its recipe."""
    judged = run.get("judged", "average")  # runs from before the choice averaged
    if judged == "ema":
        return f"moving average of all steps, decay {run['ema_decay']}"
    if judged == "raw":
        return "as training left them at that step"
    return f"mean of the last {run['average_last']} snapshots, one every {run['eval_every']} steps"


class MovingAverage:
    """A mean of all past weights in which the older count ever less.

    Source: Polyak and Juditsky 1992 for the idea; the slow start is TensorFlow's
    `ExponentialMovingAverage(num_updates)`.
    """

    def __init__(self, model: Transformer, decay: float) -> None:
        """Start with the weights as they are.

        Args:
            model: whose weights to follow.
            decay: share of the past kept at each step, in [0, 1).
        """
        self.decay = decay
        followed = {name: tensor.detach() for name, tensor in own_tensors(model).items()}
        self.weights: Weights = {name: tensor.clone() for name, tensor in followed.items()}
        self._followed = list(followed.values())

    def update(self, step: int) -> None:
        """Take in the weights after a step, counted from 1; early steps forget faster."""
        share = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self.weights.values()), self._followed, 1 - share)

    def restore(self, weights: Mapping[str, Tensor]) -> None:
        """Go on from a saved average; the names must be the model's.

        Raises:
            KeyError: if one is missing.
        """
        for name, tensor in self.weights.items():
            tensor.copy_(weights[name])

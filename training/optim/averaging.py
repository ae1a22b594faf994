"""Weight averaging: moving average, mean of the last snapshots, or none.

Averaged weights lie in flatter regions of the loss than those of the last step, at the cost of
memory only.
"""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from hubnmt.checkpoint.weights import own_tensors
from hubnmt.model import Transformer

Weights = dict[str, Tensor]
"""Detached parameters by name; tied ones appear once, under their first name."""


def copy_weights(model: Transformer) -> Weights:
    """Return a copy of the weights in main memory."""
    return {
        name: tensor.detach().to("cpu", copy=True) for name, tensor in own_tensors(model).items()
    }


def with_weights(model: Transformer, weights: Mapping[str, Tensor]) -> Transformer:
    """Return a copy of a model, in eval mode, with other weights."""
    twin = copy.deepcopy(model)  # a new model would advance the run's random generator
    put_weights(twin, weights)
    return twin.eval()


def put_weights(model: Transformer, weights: Mapping[str, Tensor]) -> None:
    """Replace the weights of a model, in place."""
    with torch.no_grad():
        for name, tensor in own_tensors(model).items():
            tensor.copy_(weights[name])


def average(snapshots: Iterable[Mapping[str, Tensor]]) -> Weights:
    """Average weights element by element; the names are those of the last snapshot.

    Source: Vaswani et al. 2017, section 6.1 (they average the last 5 checkpoints).
    """
    rows = list(snapshots)
    return {name: torch.stack([row[name] for row in rows]).mean(0) for name in rows[-1]}


def describe_judged(run: Mapping[str, Any]) -> str:
    """Describe which weights `best/` holds, given the `[run]` section of the recipe."""
    if run["judged"] == "ema":
        return f"moving average of all steps, decay {run['ema_decay']}"
    if run["judged"] == "raw":
        return "as training left them at that step"
    return f"mean of the last {run['average_last']} snapshots, one every {run['eval_every']} steps"


class MovingAverage:
    """Exponential moving average of the weights.

    Source: Polyak and Juditsky 1992; the lower decay of early steps follows
    TensorFlow's `ExponentialMovingAverage(num_updates)`.
    """

    def __init__(self, model: Transformer, decay: float) -> None:
        """Initialise with the current weights."""
        self.decay = decay
        followed = {name: tensor.detach() for name, tensor in own_tensors(model).items()}
        self.weights: Weights = {name: tensor.clone() for name, tensor in followed.items()}
        self._followed = list(followed.values())

    def update(self, step: int) -> None:
        """Add the weights after a step, counted from 1; early steps use a lower decay."""
        share = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self.weights.values()), self._followed, 1 - share)

    def restore(self, weights: Mapping[str, Tensor]) -> None:
        """Restore a saved average with the parameter names of the model.

        Raises:
            KeyError: if a parameter is missing.
        """
        for name, tensor in self.weights.items():
            tensor.copy_(weights[name])

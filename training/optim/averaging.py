"""Copies and averages of a model's weights."""

import copy
from collections.abc import Iterable, Mapping

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

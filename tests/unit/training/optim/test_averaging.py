"""Weights: means are means, copies are copies."""

import torch

from hubnmt.checkpoint.weights import own_tensors
from hubnmt.model import Transformer
from training.optim.averaging import copy_weights, with_weights


def test_a_copy_with_other_weights_is_tied_still_and_leaves_the_run_alone(
    tiny_model: Transformer,
) -> None:
    tiny_model.train()
    zeros = {name: torch.zeros_like(w) for name, w in own_tensors(tiny_model).items()}
    before, random_state = copy_weights(tiny_model), torch.get_rng_state()
    twin = with_weights(tiny_model, zeros)
    assert not twin.training
    assert twin.output_proj.weight is twin.src_embedding.weight
    assert all(not w.any() for w in twin.parameters())
    assert tiny_model.training
    assert all(torch.equal(w, before[n]) for n, w in own_tensors(tiny_model).items())
    assert torch.equal(torch.get_rng_state(), random_state)

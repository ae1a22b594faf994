"""Weights: means are means, copies are copies, and the moving average follows."""

import pytest
import torch
from torch import Tensor

from hubnmt.checkpoint.weights import own_tensors
from hubnmt.model import Transformer
from training.optim.averaging import MovingAverage, copy_weights, with_weights


def shift(model: Transformer, amount: float) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(amount)


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


@pytest.mark.parametrize("decay", [0.2, 0.999])
def test_the_moving_average_by_hand(decay: float, tiny_model: Transformer) -> None:
    following = MovingAverage(tiny_model, decay)
    expected: dict[str, Tensor] = copy_weights(tiny_model)
    for step in range(1, 6):
        shift(tiny_model, step / 10)
        following.update(step)
        share = min(decay, (1 + step) / (10 + step))
        now = own_tensors(tiny_model)
        expected = {n: share * w + (1 - share) * now[n].detach() for n, w in expected.items()}
    for name, tensor in following.weights.items():
        torch.testing.assert_close(tensor, expected[name])

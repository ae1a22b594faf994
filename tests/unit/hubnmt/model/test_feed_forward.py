"""Feed-forward: torch's two linear maps with a bend between, each position on its own."""

from collections.abc import Callable
from typing import Literal

import pytest
import torch
from torch import nn
from torch.nn import functional

from hubnmt.model.feed_forward import FeedForward

ACTIVATIONS = {"relu": functional.relu, "gelu": functional.gelu}


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_agrees_with_the_formula_of_the_paper(
    activation: Literal["relu", "gelu"], randomize: Callable[[nn.Module], nn.Module]
) -> None:
    network = FeedForward(12, 17, activation=activation, dropout=0.0)
    randomize(network)
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    inner = ACTIVATIONS[activation](x @ network.widen.weight.T + network.widen.bias)
    expected = inner @ network.narrow.weight.T + network.narrow.bias
    torch.testing.assert_close(network(x), expected)


def test_each_position_thinks_on_its_own() -> None:
    network = FeedForward(12, 17, activation="relu", dropout=0.0)
    x = torch.randn(2, 5, 12)
    alone = torch.stack([network(x[:, i]) for i in range(5)], dim=1)
    torch.testing.assert_close(network(x), alone)


def test_inner_features_are_dropped_in_training_only() -> None:
    network = FeedForward(12, 17, activation="relu", dropout=0.5)
    x = torch.randn(2, 5, 12)
    assert not torch.equal(network.train()(x), network.train()(x))
    assert torch.equal(network.eval()(x), network.eval()(x))


def test_weights_start_within_the_glorot_bound_and_biases_at_zero() -> None:
    network = FeedForward(32, 64, activation="relu", dropout=0.0)
    bound = (6 / (32 + 64)) ** 0.5
    for linear in (network.widen, network.narrow):
        assert linear.weight.abs().max().item() == pytest.approx(bound, rel=0.02)
        assert linear.weight.abs().max().item() <= bound
        assert not linear.bias.any()


def test_shape_is_kept() -> None:
    network = FeedForward(12, 17, activation="gelu", dropout=0.0)
    assert network(torch.zeros(2, 5, 12)).shape == (2, 5, 12)

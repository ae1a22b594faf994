"""Positions as in the paper and without an end; dropout with the rate and scale of its name."""

import math

import pytest
import torch

from hubnmt.model.dropout import dropout
from hubnmt.model.layers import N_TABULATED, Residual, SinusoidalPositions, sinusoidal_positions
from tests.models import make_config


@pytest.mark.parametrize(("start", "end"), [(0, 7), (5, 12), (1021, 1030)])
def test_positions_follow_the_formula_of_the_paper_by_a_slow_loop(start: int, end: int) -> None:
    d_model = 12
    table = sinusoidal_positions(start, end, d_model)
    for row, position in enumerate(range(start, end)):
        for i in range(d_model // 2):
            angle = position / 10_000 ** (2 * i / d_model)
            assert table[row, 2 * i].item() == pytest.approx(math.sin(angle), abs=2e-4)
            assert table[row, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=2e-4)


def test_positions_go_on_beyond_the_table() -> None:
    positions = SinusoidalPositions(12, 0.0)
    expected = sinusoidal_positions(0, N_TABULATED + 4, 12)
    found = positions(torch.zeros(1, N_TABULATED + 4, 12))[0]
    torch.testing.assert_close(found, expected)
    for position in range(N_TABULATED - 3, N_TABULATED + 4):
        vector = positions(torch.zeros(1, 1, 12), position=position)[0, 0]
        torch.testing.assert_close(vector, expected[position])


RATES = [0.05, 0.1, 0.3, 0.5, 0.9]
"""The byte mask rounds these to multiples of 1/256."""


@pytest.mark.parametrize("p", RATES)
def test_share_of_dropped_elements_is_the_rate(p: float) -> None:
    n = 200_000
    dropped = (dropout(torch.ones(n), p) == 0).float().mean().item()
    standard_error = (p * (1 - p) / n) ** 0.5
    assert dropped == pytest.approx(p, abs=1 / 512 + 4 * standard_error)


@pytest.mark.parametrize("p", RATES)
def test_kept_values_and_their_gradients_are_scaled_by_one_over_the_share_kept(p: float) -> None:
    x = torch.randn(5000).requires_grad_()
    y = dropout(x, p)
    y.sum().backward()
    scale = (y != 0) / (1 - round(256 * p) / 256)
    torch.testing.assert_close(y, x * scale)
    torch.testing.assert_close(x.grad, scale)


def test_neighbours_are_dropped_independently() -> None:
    dropped = (dropout(torch.ones(80_000), 0.25) == 0).float() - 0.25
    for distance in (1, 2, 4, 7, 8, 16):  # eight elements share one draw
        covariance = (dropped[distance:] * dropped[:-distance]).mean().item()
        assert covariance == pytest.approx(0, abs=0.004)


@pytest.mark.gpu
def test_gpu_drops_at_the_rate_too() -> None:
    y = dropout(torch.ones(100_000, device="cuda"), 0.3)
    assert (y == 0).float().mean().item() == pytest.approx(0.3, abs=0.01)
    assert y.mean().item() == pytest.approx(1, abs=0.01)


def test_residual_stream_itself_is_never_dropped() -> None:
    residual = Residual(make_config(dropout=0.5)).train()
    x = torch.randn(2, 5, 12)
    added = residual(x, torch.ones_like) - x
    assert {round(value, 3) for value in added.flatten().tolist()} == {0.0, 2.0}

"""Dropout: rate, scale and gradient are what the name promises, and eval is identity."""

import pytest
import torch

from hubnmt.model.dropout import dropout

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

"""Positions: as in the paper, and without an end."""

import math

import pytest
import torch

from hubnmt.model.embedding import N_TABULATED, SinusoidalPositions, sinusoidal_positions


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

"""Embedding: rows scaled by sqrt(D), positions as in the paper and without an end."""

import math

import pytest
import torch
from torch.nn import functional

from hubnmt.model.embedding import (
    N_TABULATED,
    SinusoidalPositions,
    TokenEmbedding,
    sinusoidal_positions,
)


@pytest.mark.parametrize(("start", "end"), [(0, 7), (5, 12), (1021, 1030)])
def test_positions_follow_the_formula_of_the_paper_by_a_slow_loop(start: int, end: int) -> None:
    d_model = 12
    table = sinusoidal_positions(start, end, d_model)
    for row, position in enumerate(range(start, end)):
        for i in range(d_model // 2):
            angle = position / 10_000 ** (2 * i / d_model)
            assert table[row, 2 * i].item() == pytest.approx(math.sin(angle), abs=2e-4)
            assert table[row, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=2e-4)


def test_early_positions_are_exact_to_float32() -> None:
    position, feature = torch.arange(32.0)[:, None], torch.arange(0, 12, 2, dtype=torch.float64)
    angle = position.double() / 10_000 ** (feature / 12)
    expected = torch.stack((angle.sin(), angle.cos()), -1).flatten(1).float()
    torch.testing.assert_close(sinusoidal_positions(0, 32, 12), expected, atol=2e-6, rtol=0)


def test_lookup_is_torchs_scaled_by_the_root_of_the_width() -> None:
    embedding = TokenEmbedding(19, 12)
    ids = torch.tensor([[3, 18, 0], [7, 7, 1]])
    expected = functional.embedding(ids, embedding.weight) * math.sqrt(12)
    torch.testing.assert_close(embedding(ids), expected)


def test_reading_on_from_a_start_equals_reading_at_once() -> None:
    positions = SinusoidalPositions(12, 0.0)
    x = torch.randn(2, 7, 12)
    together = torch.cat((positions(x[:, :3]), positions(x[:, 3:], start=3)), dim=1)
    assert torch.equal(together, positions(x))


def test_positions_go_on_beyond_the_table() -> None:
    positions = SinusoidalPositions(12, 0.0)
    start, end = N_TABULATED - 3, N_TABULATED + 4
    expected = sinusoidal_positions(start, end, 12)
    torch.testing.assert_close(positions(torch.zeros(1, 7, 12), start=start)[0], expected)
    for position in range(start, end):
        vector = positions.at(torch.zeros(1, 1, 12), position)[0, 0]
        torch.testing.assert_close(vector, expected[position - start])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("start", [0, N_TABULATED])
def test_positions_take_the_type_of_what_they_are_added_to(dtype: torch.dtype, start: int) -> None:
    positions = SinusoidalPositions(12, 0.0)
    assert positions(torch.zeros(2, 5, 12, dtype=dtype), start=start).dtype == dtype


def test_features_are_dropped_in_training_only() -> None:
    positions = SinusoidalPositions(12, 0.5)
    x = torch.ones(2, 5, 12) * 10
    assert (positions.train()(x) == 0).any()
    assert torch.equal(positions.eval()(x), SinusoidalPositions(12, 0.0)(x))

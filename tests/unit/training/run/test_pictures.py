"""Pictures: a place for each head and weight, darker where there is more attention."""

import torch

from training.run.logging import CELL, GAP, draw_heads

L, H, T, S = 2, 3, 4, 5


def test_every_head_has_its_place_and_a_frame() -> None:
    picture = draw_heads(torch.zeros(L, H, T, S))
    assert picture.shape == (3, GAP + L * (T * CELL + GAP), GAP + H * (S * CELL + GAP))
    assert picture.dtype == torch.uint8
    assert (picture == 255).all()


def test_one_weight_is_one_dark_cell() -> None:
    weights = torch.zeros(L, H, T, S)
    weights[1, 2, 3, 4] = 1.0
    dark = draw_heads(weights, cell=1)[0] < 255
    row, column = 1 * (T + GAP) + GAP + 3, 2 * (S + GAP) + GAP + 4
    assert dark.nonzero().tolist() == [[row, column]]


def test_more_attention_is_darker() -> None:
    weights = torch.linspace(0, 1, S).view(1, 1, 1, S)
    shades = draw_heads(weights, cell=1)[0, GAP, GAP : GAP + S].tolist()
    assert shades == sorted(shades, reverse=True)
    assert len(set(shades)) == S

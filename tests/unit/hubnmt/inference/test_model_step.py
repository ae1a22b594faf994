"""Normalization a few rows at a time is the log-softmax of all."""

import pytest
import torch

from hubnmt.inference.model_step import normalize_


@pytest.mark.parametrize("shape", [(1, 1, 9), (16, 4, 9), (13, 5, 9), (40, 5, 9)], ids=str)
def test_rows_are_normalized_in_place(shape: tuple[int, int, int]) -> None:
    logits = torch.randn(shape)
    expected = logits.log_softmax(-1)
    normalize_(logits)
    torch.testing.assert_close(logits, expected)

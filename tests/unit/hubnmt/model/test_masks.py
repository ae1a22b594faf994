"""Masks: padding becomes a ban, the future becomes a ban, everything else is allowed."""

import pytest
import torch

from hubnmt.model.masks import causal_mask, padding_mask


def test_padding_is_forbidden_and_tokens_are_allowed() -> None:
    pad_mask = torch.tensor([[False, False, True], [False, True, True]])
    allowed = padding_mask(pad_mask)
    assert allowed[:, 0, 0].tolist() == [[True, True, False], [True, False, False]]


def test_padding_facts_are_not_changed() -> None:
    pad_mask = torch.tensor([[False, True]])
    padding_mask(pad_mask)
    assert pad_mask.tolist() == [[False, True]]


@pytest.mark.parametrize(("n_queries", "n_keys"), [(1, 1), (5, 5), (3, 7), (1, 6)])
def test_each_query_sees_itself_and_the_past_by_a_slow_loop(n_queries: int, n_keys: int) -> None:
    allowed = causal_mask(n_queries, n_keys)
    n_cached = n_keys - n_queries
    for query in range(n_queries):
        for key in range(n_keys):
            assert allowed[0, 0, query, key].item() is (key <= n_cached + query)


def test_later_queries_alone_see_what_they_saw_among_all() -> None:
    assert torch.equal(causal_mask(2, 7), causal_mask(7, 7)[:, :, 5:])


def test_masks_broadcast_over_heads_and_queries() -> None:
    assert padding_mask(torch.zeros(2, 5, dtype=torch.bool)).shape == (2, 1, 1, 5)
    assert causal_mask(3, 7).shape == (1, 1, 3, 7)


def test_mask_is_made_on_the_device_asked_for() -> None:
    assert causal_mask(2, 3, device=torch.device("meta")).device.type == "meta"

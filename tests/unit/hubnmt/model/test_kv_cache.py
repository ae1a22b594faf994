"""Cache: appending equals concatenating, and each hypothesis sees its own past and no other."""

import pytest
import torch
from torch import Tensor

from hubnmt.model.kv_cache import DecoderCache, LayerCache

B, H, E, S, L = 2, 3, 4, 5, 2


def random_kv(n_positions: int) -> tuple[Tensor, Tensor]:
    return torch.randn(B, H, n_positions, E), torch.randn(B, H, n_positions, E)


def make_cache() -> DecoderCache[LayerCache]:
    memory_mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])[:, None, None]
    return DecoderCache([LayerCache(*random_kv(S)) for _ in range(L)], memory_mask)


# --- keys and values -----------------------------------------------------------------------------


@pytest.mark.parametrize("widths", [[7], [1] * 40, [4] * 20, [1, 5, 5, 2], [30, 3, 1]])
def test_appended_parts_come_back_as_one_concatenation(widths: list[int]) -> None:
    cache = LayerCache(*random_kv(S))
    keys, values = [], []
    for width in widths:
        k, v = random_kv(width)
        keys.append(k)
        values.append(v)
        all_k, all_v = cache.append(k, v)
        assert torch.equal(all_k, torch.cat(keys, dim=2))
        assert torch.equal(all_v, torch.cat(values, dim=2))


def test_appended_tensors_are_not_written_to_later() -> None:
    cache = LayerCache(*random_kv(S))
    k, v = random_kv(1)
    before = k.clone(), v.clone()
    cache.append(k, v)
    for _ in range(40):
        cache.append(*random_kv(1))
    assert torch.equal(k, before[0])
    assert torch.equal(v, before[1])


def test_first_append_copies_nothing_and_keeps_the_gradient() -> None:
    cache = LayerCache(*random_kv(S))
    k, v = (x.requires_grad_() for x in random_kv(7))
    all_k, all_v = cache.append(k, v)
    assert all_k is k
    assert all_v is v


def test_room_grows_rarely() -> None:
    cache = LayerCache(*random_kv(S))
    addresses = {cache.append(*random_kv(1))[0].data_ptr() for _ in range(200)}
    assert len(addresses) <= 6


def keep(cache: LayerCache, rows: list[int]) -> None:
    moved = [place for place, row in enumerate(rows) if row != place]
    cache.keep(*(torch.tensor(numbers, dtype=torch.int64) for numbers in (rows, moved)))


@pytest.mark.parametrize("rows", [[1], [0], [1, 0], [0, 1], []])
def test_kept_rows_are_the_ones_asked_for_and_can_grow_on(rows: list[int]) -> None:
    cache = LayerCache(*random_kv(S))
    memory_k, memory_v = cache.memory_k.clone(), cache.memory_v.clone()
    cache.append(*random_kv(2))
    k, v = (x.clone() for x in cache.append(*random_kv(3)))
    keep(cache, rows)
    assert torch.equal(cache.memory_k, memory_k[rows])
    assert torch.equal(cache.memory_v, memory_v[rows])
    new_k, new_v = random_kv(40)
    new_k, new_v = new_k[rows], new_v[rows]
    all_k, all_v = cache.append(new_k, new_v)
    assert torch.equal(all_k, torch.cat((k[rows], new_k), dim=2))
    assert torch.equal(all_v, torch.cat((v[rows], new_v), dim=2))


def test_rows_can_be_kept_before_the_first_token() -> None:
    cache = LayerCache(*random_kv(S))
    memory_k = cache.memory_k.clone()
    keep(cache, [1])
    assert torch.equal(cache.memory_k, memory_k[1:])
    k, v = random_kv(3)
    assert torch.equal(cache.append(k[1:], v[1:])[0], k[1:])


# --- who may look at whom ------------------------------------------------------------------------


def test_one_hypothesis_sees_all_its_past() -> None:
    cache = make_cache()
    for n_keys in range(1, 6):
        mask = cache.advance(1)
        assert mask.shape == (B, 1, 1, n_keys)
        assert mask.all()


def test_ancestors_are_those_of_a_family_tree_kept_by_hand() -> None:
    """Entries are (step, hypothesis); each lineage is a list of them."""
    generator = torch.Generator().manual_seed(5)
    cache = make_cache()
    lineages: list[list[set[int]]] = [[set()] for _ in range(B)]
    n_entries = 0
    for n_beams in (1, 4, 4, 2, 6):
        parents = torch.randint(len(lineages[0]), (B, n_beams), generator=generator)
        cache.reorder(parents)
        mask = cache.advance(n_beams)
        for b in range(B):
            lineages[b] = [
                lineages[b][int(parents[b, w])] | {n_entries + w} for w in range(n_beams)
            ]
            for w in range(n_beams):
                assert set(mask[b, 0, w].nonzero().flatten().tolist()) == lineages[b][w]
        n_entries += n_beams
        assert mask.shape == (B, 1, n_beams, n_entries)


def test_each_step_is_one_position_however_many_hypotheses() -> None:
    cache = make_cache()
    cache.advance(1)
    cache.reorder(torch.zeros(B, 4, dtype=torch.int64))
    cache.advance(4)
    assert cache.n_positions == 2


def test_beams_may_fork_before_the_first_token() -> None:
    cache = make_cache()
    cache.reorder(torch.zeros(B, 3, dtype=torch.int64))
    assert torch.equal(cache.advance(3)[1, 0], torch.eye(3, dtype=torch.bool))


def test_kept_rows_keep_their_family_tree_their_mask_and_their_layers() -> None:
    cache = make_cache()
    cache.advance(1)
    cache.reorder(torch.zeros(B, 3, dtype=torch.int64))
    cache.advance(3)
    cache.reorder(torch.tensor([[0, 0, 2], [2, 1, 1]]))
    other = torch.tensor([1])
    memory_k = cache.layers[1].memory_k.clone()
    cache.keep(other)
    mask = cache.advance(3)
    expected = [
        [True, False, False, True, True, False, False],
        [True, False, True, False, False, True, False],
        [True, False, True, False, False, False, True],
    ]
    assert mask[:, 0].tolist() == [expected]
    assert torch.equal(cache.memory_mask[0, 0, 0], torch.tensor([True] * 3 + [False] * 2))
    assert torch.equal(cache.layers[1].memory_k, memory_k[other])


def test_a_wrong_number_of_hypotheses_is_refused() -> None:
    cache = make_cache()
    with pytest.raises(ValueError, match="3 hypotheses, but the cache holds 1"):
        cache.advance(3)
    assert cache.n_positions == 0

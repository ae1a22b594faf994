"""The packed cache: appending equals concatenating, and what nothing was written to stays unseen.

That whole steps agree with the reference model is shown in `test_packed`.
"""

import pytest
import torch
from torch import Tensor

from hubnmt.inference.packed_cache import MIN_KEYS, PackedCache, PackedLayerCache

B, H, E, S = 2, 3, 4, 5


def make_layer(min_keys: int = 1) -> PackedLayerCache:
    return PackedLayerCache(*torch.randn(2, B, H, S, E), min_keys=min_keys)


def random_kv(width: int, n_rows: int = B) -> Tensor:
    return torch.randn(n_rows, width, 2, H, E)


def concatenate(parts: list[Tensor], number: int) -> Tensor:
    """Keys (0) or values (1) of all parts: (B, H, K, E)."""
    return torch.cat([part[:, :, number] for part in parts], dim=1).transpose(1, 2)


@pytest.mark.parametrize("min_keys", [1, MIN_KEYS])
@pytest.mark.parametrize("widths", [[7], [1] * 40, [4] * 20, [1, 5, 5, 2], [30, 3, 1]])
def test_appended_parts_come_back_as_one_concatenation_and_zeros(
    widths: list[int], min_keys: int
) -> None:
    cache, parts = make_layer(min_keys), []
    for width in widths:
        parts.append(random_kv(width))
        n_keys = sum(part.shape[1] for part in parts)
        for number, found in enumerate(cache.append(parts[-1])):
            assert found.shape[2] == max(n_keys, min_keys)
            assert torch.equal(found[:, :, :n_keys], concatenate(parts, number))
            assert not found[:, :, n_keys:].any()


def test_room_grows_rarely() -> None:
    cache = make_layer()
    addresses = {cache.append(random_kv(1))[0].data_ptr() for _ in range(200)}
    assert len(addresses) <= 6


@pytest.mark.parametrize("rows", [[1], [0], [1, 0], [0, 1], []])
def test_kept_rows_are_the_ones_asked_for_and_can_grow_on(rows: list[int]) -> None:
    cache = make_layer(MIN_KEYS)
    memory_k, memory_v = cache.memory_k.clone(), cache.memory_v.clone()
    old = random_kv(3)
    cache.append(old)
    moved = [place for place, row in enumerate(rows) if row != place]
    cache.keep(*(torch.tensor(numbers, dtype=torch.int64) for numbers in (rows, moved)))
    assert torch.equal(cache.memory_k, memory_k[rows])
    assert torch.equal(cache.memory_v, memory_v[rows])
    parts = [old[rows]]
    for width in (1, 40):
        parts.append(random_kv(width, len(rows)))
        for number, found in enumerate(cache.append(parts[-1])):
            expected = concatenate(parts, number)
            assert torch.equal(found[:, :, : expected.shape[2]], expected)


def test_nobody_looks_where_nothing_was_written() -> None:
    cache = PackedCache([], torch.ones(B, 1, 1, S, dtype=torch.bool), min_keys=4)
    seen = []
    for width in (1, 2, 2):
        cache.reorder(torch.zeros(B, width, dtype=torch.int64))
        seen.append(cache.advance(width)[1, 0].int().tolist())
    assert seen == [
        [[1, 0, 0, 0]],
        [[1, 1, 0, 0], [1, 0, 1, 0]],
        [[1, 1, 0, 1, 0], [1, 1, 0, 0, 1]],
    ]

"""The store of pairs: what was written, by number, with lengths and corpora."""

from pathlib import Path

import pytest

from hubnmt.errors import InputError
from training.data.dataset import PairDataset, write_pairs

ROWS = [(0, [1, 2], [3]), (0, [4], [5, 6, 7]), (2, [8, 9, 10], [11, 2**31 - 1]), (2, [], [1])]


@pytest.mark.parametrize("rows", [[0], [3, 0, 2], [2, 2, 1]])
def test_some_pairs_can_be_gathered_in_any_order(rows: list[int], tmp_path: Path) -> None:
    write_pairs(tmp_path, ROWS, n_corpora=3)
    store = PairDataset(tmp_path)
    for side, ragged in enumerate(store.gather(rows)):
        places = zip(ragged.starts.tolist(), ragged.lengths.tolist(), strict=True)
        found = [ragged.values[start : start + length].tolist() for start, length in places]
        assert found == [store[row][side] for row in rows]


@pytest.mark.parametrize("name", ["ids.bin", "lengths.bin"])
def test_a_torn_store_is_refused(name: str, tmp_path: Path) -> None:
    write_pairs(tmp_path, ROWS, n_corpora=3)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[:-8])
    with pytest.raises(InputError, match="incomplete; remove it"):
        PairDataset(tmp_path)

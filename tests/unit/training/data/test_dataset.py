"""The store of pairs: what was written, by number, with lengths and corpora."""

from pathlib import Path

import pytest
import torch

from hubnmt.errors import HubNMTError
from training.data import arrow
from training.data.dataset import PairDataset, write_pairs

ROWS = [
    (0, [1, 2], [3]),
    (0, [4], [5, 6, 7]),
    (2, [8, 9, 10], [11, 12]),
    (2, [13], [14]),
    (2, [], [1]),
]


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "ROWS_PER_CHUNK", 2)


@pytest.fixture
def store(tmp_path: Path) -> PairDataset:
    write_pairs(tmp_path, iter(ROWS), n_corpora=3)
    return PairDataset(tmp_path)


def test_pairs_come_back_by_number(store: PairDataset) -> None:
    pairs = [(src, tgt) for _, src, tgt in ROWS]
    assert len(store) == len(pairs)
    assert [store[row] for row in range(5)] == pairs
    assert list(store) == pairs
    assert store[-1] == pairs[-1]


@pytest.mark.parametrize("row", [5, -6, 99])
def test_there_are_no_others(row: int, store: PairDataset) -> None:
    with pytest.raises(IndexError):
        store[row]


def test_lengths_are_those_of_the_ids(store: PairDataset) -> None:
    assert store.lengths.tolist() == [[len(src), len(tgt)] for _, src, tgt in ROWS]
    assert store.lengths.dtype == torch.int32


def test_corpora_are_counted_empty_ones_too(store: PairDataset) -> None:
    assert store.counts == [2, 0, 3]


def test_no_pairs_make_an_empty_store(tmp_path: Path) -> None:
    write_pairs(tmp_path, [], n_corpora=1)
    empty = PairDataset(tmp_path)
    assert (len(empty), list(empty), tuple(empty.lengths.shape)) == (0, [], (0, 2))


@pytest.mark.parametrize("rows", [[0], [3, 0, 2], [4, 4, 1]])
def test_some_pairs_can_be_gathered_in_any_order(rows: list[int], store: PairDataset) -> None:
    for side, ragged in enumerate(store.gather(rows)):
        places = zip(ragged.starts.tolist(), ragged.lengths.tolist(), strict=True)
        found = [ragged.values[start : start + length].tolist() for start, length in places]
        assert found == [store[row][side] for row in rows]


def test_a_torn_store_is_refused(store: PairDataset, tmp_path: Path) -> None:
    torn = tmp_path / "torn"
    torn.mkdir()
    (torn / "counts.json").write_bytes((tmp_path / "counts.json").read_bytes())
    (torn / "pairs.arrow").write_bytes((tmp_path / "pairs.arrow").read_bytes()[:-20])
    with pytest.raises(HubNMTError, match=r"pairs\.arrow"):
        PairDataset(torn)

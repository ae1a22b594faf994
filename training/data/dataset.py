"""Training pairs as token ids on disk, read through a memory map.

In memory are two offsets and two lengths per pair, 24 bytes; the ids stay in the page cache, which
the system may reclaim.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from hubnmt.checkpoint.folder import read_json, write_json
from hubnmt.model.batching import Ragged
from training.data.arrow import NUMBERS, TableWriter, map_lists
from training.data.batching import Pair

PAIRS_FILE = "pairs.arrow"
COUNTS_FILE = "counts.json"


def write_pairs(
    folder: Path, rows: Iterable[tuple[int, list[int], list[int]]], *, n_corpora: int
) -> None:
    """Write pairs, ordered by corpus.

    Args:
        folder: existing folder.
        rows: corpus index, source ids, target ids.
        n_corpora: number of corpora, empty ones included.
    """
    counts = [0] * n_corpora
    with TableWriter(folder / PAIRS_FILE, {"src": NUMBERS, "tgt": NUMBERS}) as writer:
        for corpus, src, tgt in rows:
            counts[corpus] += 1
            writer.add(src, tgt)
    write_json(folder / COUNTS_FILE, {"pairs": counts})


class PairDataset(Sequence[Pair]):
    """All training pairs of a run, by index; pairs of one corpus are contiguous."""

    def __init__(self, folder: Path) -> None:
        """Map the file into memory.

        Raises:
            InputError: if the file is incomplete.
        """
        self.counts: list[int] = read_json(folder / COUNTS_FILE)["pairs"]
        """Pairs of each corpus."""
        self._values, self._starts, self.lengths = map_lists(folder / PAIRS_FILE)
        # `lengths`: (N, 2) int32, tokens of source and target.

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.lengths)

    def __getitem__(self, row: int) -> Pair:  # type: ignore[override]  # no slices
        """Return the ids of one pair."""
        starts, lengths = self._starts[row].tolist(), self.lengths[row].tolist()
        src, tgt = (
            self._values[start : start + length].tolist()
            for start, length in zip(starts, lengths, strict=True)
        )
        return src, tgt

    def gather(self, rows: Sequence[int]) -> tuple[Ragged, Ragged]:
        """Return sources and targets of some pairs, without copying their ids."""
        indices = torch.tensor(rows)
        starts, lengths = self._starts[indices], self.lengths[indices].long()
        src, tgt = (Ragged(self._values, starts[:, side], lengths[:, side]) for side in (0, 1))
        return src, tgt

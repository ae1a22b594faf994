"""Training pairs as ids on disk, read through a memory map.

Takes a folder made by `write_pairs`, gives pairs by number. Must not know text or batches. In
memory are two lengths a pair, 8 bytes; the ids stay in the file, whose pages the system may drop at
will.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from hubnmt.checkpoint import read_json, write_json
from training.arrow import NUMBERS, ROWS_PER_CHUNK, TableWriter, list_views, read_chunks
from training.batches import Pair

PAIRS_FILE = "pairs.arrow"
COUNTS_FILE = "counts.json"


def write_pairs(
    folder: Path, rows: Iterable[tuple[int, list[int], list[int]]], *, n_corpora: int
) -> None:
    """Write pairs in the order of their corpora.

    Args:
        folder: existing folder.
        rows: corpus number, source ids, target ids.
        n_corpora: how many corpora there are, empty ones included.
    """
    counts = [0] * n_corpora
    with TableWriter(folder / PAIRS_FILE, {"src": NUMBERS, "tgt": NUMBERS}) as writer:
        for corpus, src, tgt in rows:
            counts[corpus] += 1
            writer.add(src, tgt)
    write_json(folder / COUNTS_FILE, {"pairs": counts})


class PairStore(Sequence[Pair]):
    """All training pairs of a run, by number; those of one corpus stand together."""

    def __init__(self, folder: Path) -> None:
        """Map the file into memory.

        Raises:
            InputError: if it is not whole.
        """
        self.counts: list[int] = read_json(folder / COUNTS_FILE)["pairs"]
        """Pairs of each corpus."""
        self._chunks = []
        lengths = []
        for chunk in read_chunks(folder / PAIRS_FILE):
            views = [list_views(column) for column in chunk.columns]
            self._chunks.append((chunk, *views))
            lengths.append(torch.stack([_lengths(offsets) for offsets, _ in views], dim=1))
        self.lengths = torch.cat(lengths) if lengths else torch.empty(0, 2, dtype=torch.int32)
        """(N, 2) int32, tokens of source and target."""

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.lengths)

    def __getitem__(self, row: int) -> Pair:  # type: ignore[override]  # slices have no reader
        """Return the ids of one pair."""
        if not -len(self) <= row < len(self):
            raise IndexError(row)
        number, place = divmod(row % len(self), ROWS_PER_CHUNK)
        _, *views = self._chunks[number]
        src, tgt = (
            values[offsets[place] : offsets[place + 1]].tolist() for offsets, values in views
        )
        return src, tgt


def _lengths(offsets: memoryview) -> Tensor:
    """Return the lengths (N,) of the N lists between N + 1 offsets."""
    writable = bytearray(offsets)  # torch warns of any other
    return torch.frombuffer(writable, dtype=torch.int32).diff()

"""Training pairs as token ids on disk, read through a memory map.

`ids.bin` holds the ids of all pairs, source and target in turn, and `lengths.bin` their numbers;
both are flat arrays of int32. In memory are two offsets per pair.
"""

from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from hubnmt.checkpoint.files import read_json, write_json
from hubnmt.errors import InputError
from hubnmt.model.batching import Ragged
from training.data.batching import Pair

IDS_FILE, LENGTHS_FILE, COUNTS_FILE = "ids.bin", "lengths.bin", "counts.json"


def write_pairs(
    folder: Path, rows: Iterable[tuple[int, list[int], list[int]]], *, n_corpora: int
) -> None:
    """Write pairs, (corpus index, source ids, target ids), ordered by corpus."""
    counts = [0] * n_corpora
    with (folder / IDS_FILE).open("wb") as ids, (folder / LENGTHS_FILE).open("wb") as lengths:
        for corpus, src, tgt in rows:
            counts[corpus] += 1
            array("i", src + tgt).tofile(ids)
            array("i", (len(src), len(tgt))).tofile(lengths)
    write_json(folder / COUNTS_FILE, {"pairs": counts})


class PairDataset(Sequence[Pair]):
    """All training pairs of a run, by index; pairs of one corpus are contiguous."""

    def __init__(self, folder: Path) -> None:
        """Map the files into memory."""
        self.counts: list[int] = read_json(folder / COUNTS_FILE)["pairs"]
        self.lengths = _map_file(folder / LENGTHS_FILE).view(-1, 2)
        """(N, 2) int32, tokens of source and target."""
        self._values = _map_file(folder / IDS_FILE)
        ends = self.lengths.flatten().cumsum(0)  # (2N,) int64
        self._starts = (ends - self.lengths.flatten()).view(-1, 2)
        if len(self.lengths) != sum(self.counts) or self.lengths.sum() != len(self._values):
            raise InputError(f"{folder}: incomplete; remove it, then start again")

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

    def gather(self, rows: Tensor) -> tuple[Ragged, Ragged]:
        """Return sources and targets of pairs, given by their indices (B,), without a copy."""
        starts, lengths = self._starts[rows], self.lengths[rows].long()
        src, tgt = (Ragged(self._values, starts[:, side], lengths[:, side]) for side in (0, 1))
        return src, tgt


def _map_file(path: Path) -> Tensor:
    size = path.stat().st_size // 4
    if not size:  # an empty file cannot be mapped
        return torch.empty(0, dtype=torch.int32)
    return torch.from_file(str(path), size=size, dtype=torch.int32)

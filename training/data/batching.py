"""Training pairs as token ids on disk, and batches of them by padded token count, in seeded order.

`ids.bin` holds the ids of all pairs, source and target in turn, and `lengths.bin` their numbers;
both are flat arrays of int32, read through a memory map. In memory are two offsets per pair.
"""

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from hubnmt.checkpoint.files import read_json, write_json
from hubnmt.errors import InputError
from hubnmt.model.batching import Ragged, Rows, SourceBatch, batch_sources, batch_targets
from hubnmt.text.tokenizer import Tokenizer, Tokenizers

Pair = tuple[Sequence[int], Sequence[int]]
"""(source ids, target ids), without special tokens."""
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


class Batch(NamedTuple):
    """Input of one forward pass."""

    src: SourceBatch
    tgt_in: Tensor
    """(B, T) decoder input."""
    labels: Tensor
    """(N,) the N non-pad tokens of tgt_out, row by row."""
    label_positions: Tensor
    """(N,) int64, indices of the labels among the B * T positions; a boolean mask would synchronise
    the GPU in every step."""

    def to(self, device: torch.device) -> "Batch":
        """Move all tensors; copies to a GPU are asynchronous, from pinned memory."""

        def move(tensor: Tensor) -> Tensor:
            pinned = tensor.pin_memory() if device.type == "cuda" else tensor
            return pinned.to(device, non_blocking=True)

        return Batch(SourceBatch(*map(move, self.src)), *map(move, self[1:]))

    def pick(self, hidden: Tensor) -> Tensor:
        """Return the hidden states at the labels: (B, T, D) to (N, D)."""
        return hidden.flatten(0, 1).index_select(0, self.label_positions)


Plan = list[Tensor]
"""The batches of an epoch, each the indices of its pairs (B,) int64."""


def mix_seed(*parts: int) -> int:
    """Hash several integers into one seed, so that similar arguments give unrelated seeds."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 1


def measure_lengths(pairs: Sequence[Pair]) -> Tensor:
    """Return the numbers of tokens of both sides, (N, 2) int32."""
    rows = [(len(src), len(tgt)) for src, tgt in pairs]
    return torch.tensor(rows, dtype=torch.int32).view(-1, 2)


def draw_rows(counts: Sequence[int], weights: Sequence[float], *, seed: int) -> Tensor:
    """Sample the pairs of an epoch by the weights of their corpora.

    Weight 2.25 takes each pair of its corpus twice, and a random quarter of them a third time.

    Returns:
        pair indices (N,) int64.
    """
    generator = torch.Generator().manual_seed(seed)
    parts, start = [torch.empty(0, dtype=torch.int64)], 0
    for count, weight in zip(counts, weights, strict=True):
        rows = torch.arange(start, start + count)
        parts += [rows] * int(weight)
        n_more = round((weight - int(weight)) * count)
        if n_more:
            parts.append(start + torch.randperm(count, generator=generator)[:n_more])
        start += count
    return torch.cat(parts)


def plan_epoch(
    lengths: Tensor,
    *,
    batch_tokens: int,
    seed: int,
    batches_per_step: int = 1,
    is_largest_first: bool = False,
) -> Plan:
    """Group all pairs into batches of similar lengths, then shuffle the batches.

    With BPE-dropout, applied later, a batch may hold more than `batch_tokens`. Pairs of equal
    length are shuffled, so batches differ between epochs.

    Args:
        lengths: (N, 2) tokens of both sides, without bos and eos.
        batch_tokens: padded tokens on the longer side; a longer pair is a batch of its own.
        seed: of the shuffling.
        batches_per_step: the number of batches is made a multiple of this by halving the fullest.
        is_largest_first: begin with the `batches_per_step` batches that need the most memory.

    Returns:
        batches of pair indices, each pair exactly once; their number is no multiple of
        `batches_per_step` only if there are too few pairs.
    """
    generator = torch.Generator().manual_seed(seed)
    shuffled = torch.randperm(len(lengths), generator=generator)
    sides = lengths[shuffled].long() + 1  # (N, 2), eos or bos included
    order = torch.argsort(sides[:, 1] * 2**31 + sides[:, 0], stable=True)  # target, then source
    longest = sides[order].amax(1)  # (N,)
    bounds = _halve_until(_split_by_budget(longest, batch_tokens), batches_per_step)
    batch_order = torch.randperm(len(bounds), generator=generator).tolist()
    if is_largest_first:
        sizes = [
            int(sides[order[start:end]].amax(0).sum()) * (end - start) for start, end in bounds
        ]
        largest = sorted(batch_order, key=sizes.__getitem__, reverse=True)[:batches_per_step]
        batch_order = largest + [number for number in batch_order if number not in largest]
    rows = shuffled[order]
    return [rows[start:end] for start, end in (bounds[number] for number in batch_order)]


def _split_by_budget(longest: Tensor, batch_tokens: int) -> list[tuple[int, int]]:
    """Split lengths (N,), about sorted, into spans whose padded tokens are within the budget."""
    bounds, start = [], 0
    while start < len(longest):
        most = max(1, batch_tokens // int(longest[start]))
        window = longest[start : start + most]
        padded = window.cummax(0).values * torch.arange(1, len(window) + 1)
        end = start + max(1, int((padded <= batch_tokens).sum()))
        bounds.append((start, end))
        start = end
    return bounds


def _halve_until(bounds: list[tuple[int, int]], multiple: int) -> list[tuple[int, int]]:
    """Halve the batches with the most pairs until their number is a multiple."""
    n_missing = -len(bounds) % multiple
    while n_missing:
        bounds = sorted(bounds, key=lambda bound: bound[0] - bound[1])
        n_now = min(n_missing, sum(end - start > 1 for start, end in bounds))
        if not n_now:
            break
        halves = []
        for start, end in bounds[:n_now]:
            middle = (start + end) // 2
            halves += [(start, middle), (middle, end)]
        bounds = halves + bounds[n_now:]
        n_missing -= n_now
    return bounds


def collate(pairs: Sequence[Pair], tokenizers: Tokenizers) -> Batch:
    """Pad a batch and select its labels."""
    return collate_rows([src for src, _ in pairs], [tgt for _, tgt in pairs], tokenizers)


def collate_rows(src: Rows, tgt: Rows, tokenizers: Tokenizers) -> Batch:
    """Pad a batch given by the rows of each side, and select its labels."""
    sources = batch_sources(src, **_pad_and_eos(tokenizers.src))
    targets = batch_targets(tgt, bos_id=tokenizers.tgt.bos_id, **_pad_and_eos(tokenizers.tgt))
    label_positions = (~targets.tgt_pad_mask).flatten().nonzero()[:, 0]  # (N,)
    return Batch(
        sources, targets.tgt_in, targets.tgt_out.flatten()[label_positions], label_positions
    )


def _pad_and_eos(tokenizer: Tokenizer) -> dict[str, int]:
    return {"pad_id": tokenizer.pad_id, "eos_id": tokenizer.eos_id}

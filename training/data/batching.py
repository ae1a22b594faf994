"""Pairs to batches of about the same number of padded tokens, in seeded order, for each process.

Takes lengths and ids, gives batches of pair numbers and their tensors. Must not know the model or
files.
"""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple, overload

import torch
from torch import Tensor

from hubnmt.model.batching import (
    Ragged,
    SourceBatch,
    TargetBatch,
    batch_ragged_sources,
    batch_ragged_targets,
    batch_sources,
    batch_targets,
)
from hubnmt.text.tokenizer import Tokenizer

Pair = tuple[Sequence[int], Sequence[int]]
"""(source ids, target ids), without special tokens."""


class Batch(NamedTuple):
    """What one forward pass needs."""

    src: SourceBatch
    tgt_in: Tensor
    """(B, T)."""
    labels: Tensor
    """(N,) the N real tokens of tgt_out, row by row."""
    places: Tensor
    """(N,) int64, where the labels stand among the B * T positions; a mask would make a GPU wait in
    every step, as only the GPU could count what it holds."""

    def to(self, device: torch.device) -> "Batch":
        """Move all tensors; a GPU copies them from pinned memory while it is at work."""

        def move(tensor: Tensor) -> Tensor:
            pinned = tensor.pin_memory() if device.type == "cuda" else tensor
            return pinned.to(device, non_blocking=True)

        return Batch(SourceBatch(*map(move, self.src)), *map(move, self[1:]))

    def first_rows(self, n_rows: int) -> "Batch":
        """Return the first pairs of the batch as a batch; its padding stays as it is."""
        n_labels = int((self.places < n_rows * self.tgt_in.shape[1]).sum())
        return Batch(
            SourceBatch(*(tensor[:n_rows] for tensor in self.src)),
            self.tgt_in[:n_rows],
            self.labels[:n_labels],
            self.places[:n_labels],
        )

    def pick(self, hidden: Tensor) -> Tensor:
        """Return what stands at the labels: (B, T, D) to (N, D)."""
        return hidden.flatten(0, 1).index_select(0, self.places)

    def twice(self) -> "Batch":
        """Put the batch twice into one: rows (2B, ...), labels (2N,)."""
        src = SourceBatch(*(torch.cat([tensor, tensor]) for tensor in self.src))
        tgt_in, labels = (torch.cat([tensor, tensor]) for tensor in (self.tgt_in, self.labels))
        return Batch(
            src, tgt_in, labels, torch.cat([self.places, self.places + self.tgt_in.numel()])
        )


class Plan(Sequence[list[int]]):
    """The batches of an epoch, each a list of pair numbers; 8 bytes a pair, whatever the number."""

    def __init__(self, rows: Tensor, bounds: Sequence[tuple[int, int]]) -> None:
        """Keep pair numbers (N,) and where each batch begins and ends among them."""
        self._rows = rows
        self._bounds = bounds

    def __len__(self) -> int:
        """Return the number of batches."""
        return len(self._bounds)

    @overload
    def __getitem__(self, number: int) -> list[int]: ...

    @overload
    def __getitem__(self, number: slice) -> "Plan": ...

    def __getitem__(self, number: int | slice) -> "list[int] | Plan":
        """Return the pair numbers of a batch, or a part of the plan."""
        if isinstance(number, slice):
            return Plan(self._rows, self._bounds[number])
        start, end = self._bounds[number]
        return self._rows[start:end].tolist()

    def of_rows(self, rows: Tensor) -> "Plan":
        """Return the plan with the pair numbers that `rows` (M,) holds at its own."""
        return Plan(rows[self._rows], self._bounds)


def mix_seed(*parts: int) -> int:
    """Make one seed of several, so that neither (1, 2) and (2, 1) nor (1, 2) and (1, 3) are kin."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 1


def measure_lengths(pairs: Sequence[Pair]) -> Tensor:
    """Return the tokens of both sides, (N, 2) int32."""
    rows = [(len(src), len(tgt)) for src, tgt in pairs]
    return torch.tensor(rows, dtype=torch.int32).view(-1, 2)


def draw_rows(counts: Sequence[int], weights: Sequence[float], *, seed: int) -> Tensor:
    """Choose the pairs of an epoch by the weights of their corpora.

    Weight 2.25 takes each pair of its corpus twice, and a random quarter of them once more.

    Args:
        counts: pairs of each corpus, which stand one corpus after the other.
        weights: of each corpus.
        seed: another one draws other quarters.

    Returns:
        pair numbers (N,) int64.
    """
    generator = torch.Generator().manual_seed(seed)
    parts, start = [torch.empty(0, dtype=torch.int64)], 0
    for count, weight in zip(counts, weights, strict=True):
        every = torch.arange(start, start + count)
        parts += [every] * int(weight)
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
    n_together: int = 1,
    is_largest_first: bool = False,
) -> Plan:
    """Cut all pairs into batches of similar lengths, then shuffle the batches.

    A batch holds at most `batch_tokens` padded tokens on its longer side, so its cost is even. That
    is by these lengths: pairs that are split anew afterwards may be longer.
    Equal lengths are shuffled, so batches differ from epoch to epoch.

    Args:
        lengths: (N, 2) tokens of both sides, without bos and eos.
        batch_tokens: padded tokens on the longer side; a pair longer than that stands alone.
        seed: of all that is random here.
        n_together: the number of batches is made a multiple of this, by halving the fullest ones.
        is_largest_first: begin with the `n_together` batches that need most memory.

    Returns:
        batches of pair numbers, each pair exactly once; fewer than a multiple of `n_together` only
        if there are fewer pairs.
    """
    generator = torch.Generator().manual_seed(seed)
    shuffled = torch.randperm(len(lengths), generator=generator)
    sides = lengths[shuffled].long() + 1  # (N, 2), eos or bos included
    order = torch.argsort(sides[:, 1] * 2**31 + sides[:, 0], stable=True)
    longest = sides[order].amax(1)  # (N,)
    bounds = _cut(longest, batch_tokens)
    bounds = _halve_until(bounds, n_together)
    turn = torch.randperm(len(bounds), generator=generator).tolist()
    if is_largest_first:
        sizes = [
            int(sides[order[start:end]].amax(0).sum()) * (end - start) for start, end in bounds
        ]
        largest = sorted(turn, key=sizes.__getitem__, reverse=True)[:n_together]
        turn = largest + [number for number in turn if number not in set(largest)]
    return Plan(shuffled[order], [bounds[number] for number in turn])


def _cut(longest: Tensor, batch_tokens: int) -> list[tuple[int, int]]:
    """Cut a sorted row of lengths (N,) into runs within the budget."""
    bounds = []
    start = 0
    while start < len(longest):
        most = max(1, batch_tokens // int(longest[start]))
        window = longest[start : start + most]
        padded = window.cummax(0).values * torch.arange(1, len(window) + 1)
        end = start + max(1, int((padded <= batch_tokens).sum()))
        bounds.append((start, end))
        start = end
    return bounds


def _halve_until(bounds: list[tuple[int, int]], multiple: int) -> list[tuple[int, int]]:
    """Halve the batches of most pairs until their number is a multiple."""
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


def collate(pairs: Sequence[Pair], *, src_tokenizer: Tokenizer, tgt_tokenizer: Tokenizer) -> Batch:
    """Pad a batch and pick out its labels."""
    src = batch_sources([src for src, _ in pairs], **_ends(src_tokenizer))
    tgt = batch_targets(
        [tgt for _, tgt in pairs], bos_id=tgt_tokenizer.bos_id, **_ends(tgt_tokenizer)
    )
    return _pick_labels(src, tgt)


def collate_ragged(
    src: Ragged, tgt: Ragged, *, src_tokenizer: Tokenizer, tgt_tokenizer: Tokenizer
) -> Batch:
    """Do what `collate` does, for pairs that are no lists."""
    return _pick_labels(
        batch_ragged_sources(src, **_ends(src_tokenizer)),
        batch_ragged_targets(tgt, bos_id=tgt_tokenizer.bos_id, **_ends(tgt_tokenizer)),
    )


def _ends(tokenizer: Tokenizer) -> dict[str, int]:
    return {"pad_id": tokenizer.pad_id, "eos_id": tokenizer.eos_id}


def _pick_labels(src: SourceBatch, tgt: TargetBatch) -> Batch:
    places = (~tgt.tgt_pad_mask).flatten().nonzero()[:, 0]  # (N,)
    return Batch(src, tgt.tgt_in, tgt.tgt_out.flatten()[places], places)

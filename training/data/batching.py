"""Batching by padded token count, in seeded order, for one or many processes."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from hubnmt.model.batching import Rows, SourceBatch, batch_sources, batch_targets
from hubnmt.text.tokenizer import Tokenizer, Tokenizers

Pair = tuple[Sequence[int], Sequence[int]]
"""(source ids, target ids), without special tokens."""


class Batch(NamedTuple):
    """Input of one forward pass."""

    src: SourceBatch
    tgt_in: Tensor
    """(B, T) decoder input."""
    labels: Tensor
    """(N,) the N non-pad tokens of tgt_out, row by row."""
    places: Tensor
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
        return hidden.flatten(0, 1).index_select(0, self.places)


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
    n_together: int = 1,
    is_largest_first: bool = False,
) -> Plan:
    """Group all pairs into batches of similar lengths, then shuffle the batches.

    With BPE-dropout, applied later, a batch may hold more than `batch_tokens`. Pairs of equal
    length are shuffled, so batches differ between epochs.

    Args:
        lengths: (N, 2) tokens of both sides, without bos and eos.
        batch_tokens: padded tokens on the longer side; a longer pair is a batch of its own.
        seed: of the shuffling.
        n_together: the number of batches is made a multiple of this by halving the fullest ones.
        is_largest_first: begin with the `n_together` batches that need the most memory.

    Returns:
        batches of pair indices, each pair exactly once; their number is no multiple of `n_together`
        only if there are too few pairs.
    """
    generator = torch.Generator().manual_seed(seed)
    shuffled = torch.randperm(len(lengths), generator=generator)
    sides = lengths[shuffled].long() + 1  # (N, 2), eos or bos included
    order = torch.argsort(sides[:, 1] * 2**31 + sides[:, 0], stable=True)
    longest = sides[order].amax(1)  # (N,)
    bounds = _halve_until(_cut(longest, batch_tokens), n_together)
    turn = torch.randperm(len(bounds), generator=generator).tolist()
    if is_largest_first:
        sizes = [
            int(sides[order[start:end]].amax(0).sum()) * (end - start) for start, end in bounds
        ]
        largest = sorted(turn, key=sizes.__getitem__, reverse=True)[:n_together]
        turn = largest + [number for number in turn if number not in set(largest)]
    rows = shuffled[order]
    return [rows[start:end] for start, end in (bounds[number] for number in turn)]


def _cut(longest: Tensor, batch_tokens: int) -> list[tuple[int, int]]:
    """Split sorted lengths (N,) into spans within the token budget."""
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
    sources = batch_sources(src, **_ends(tokenizers.src))
    targets = batch_targets(tgt, bos_id=tokenizers.tgt.bos_id, **_ends(tokenizers.tgt))
    places = (~targets.tgt_pad_mask).flatten().nonzero()[:, 0]  # (N,)
    return Batch(sources, targets.tgt_in, targets.tgt_out.flatten()[places], places)


def _ends(tokenizer: Tokenizer) -> dict[str, int]:
    return {"pad_id": tokenizer.pad_id, "eos_id": tokenizer.eos_id}

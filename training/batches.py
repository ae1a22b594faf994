"""Pairs of ids to batches of about the same number of padded tokens, in seeded order.

Takes id lists, gives batches of pair numbers and their tensors. Must not know the model or files.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from hubnmt.batching import SourceBatch, batch_sources, batch_targets
from hubnmt.tokenizer import Tokenizer

Pair = tuple[Sequence[int], Sequence[int]]
"""(source ids, target ids), without special tokens."""


class Batch(NamedTuple):
    """What one forward pass needs."""

    src: SourceBatch
    tgt_in: Tensor
    """(B, T)."""
    labels: Tensor
    """(N,) the N real tokens of tgt_out, row by row."""
    is_label: Tensor
    """(B, T), True where tgt_out is a real token."""

    def to(self, device: torch.device) -> "Batch":
        """Move all tensors."""
        src = SourceBatch(*(tensor.to(device, non_blocking=True) for tensor in self.src))
        return Batch(src, *(tensor.to(device, non_blocking=True) for tensor in self[1:]))


def plan_epoch(pairs: Sequence[Pair], *, batch_tokens: int, seed: int) -> list[list[int]]:
    """Cut all pairs into batches of similar lengths, then shuffle the batches.

    A batch holds at most `batch_tokens` padded tokens on its longer side, so its cost is even.
    Equal lengths are shuffled, so batches differ from epoch to epoch.

    Returns:
        batches of pair numbers, each pair exactly once.
    """
    rng = random.Random(seed)
    keys = [(len(tgt) + 1, len(src) + 1, rng.random()) for src, tgt in pairs]
    order = sorted(range(len(pairs)), key=keys.__getitem__)
    batches: list[list[int]] = []
    longest = 0
    for index in order:
        longest = max(longest, *keys[index][:2])
        if batches and longest * (len(batches[-1]) + 1) <= batch_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
            longest = max(keys[index][:2])
    rng.shuffle(batches)
    return batches


def collate(pairs: Sequence[Pair], *, src_tokenizer: Tokenizer, tgt_tokenizer: Tokenizer) -> Batch:
    """Pad a batch and pick out its labels."""
    src = batch_sources(
        [src for src, _ in pairs], pad_id=src_tokenizer.pad_id, eos_id=src_tokenizer.eos_id
    )
    tgt = batch_targets(
        [tgt for _, tgt in pairs],
        pad_id=tgt_tokenizer.pad_id,
        bos_id=tgt_tokenizer.bos_id,
        eos_id=tgt_tokenizer.eos_id,
    )
    is_label = ~tgt.tgt_pad_mask
    return Batch(src, tgt.tgt_in, tgt.tgt_out[is_label], is_label)

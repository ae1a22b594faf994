"""Padding and batching of token ids.

Only this module adds bos and eos, so that training and inference build identical batches.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class SourceBatch(NamedTuple):
    """Padded source sentences."""

    src_ids: Tensor
    """(B, S) int64; each row ends with eos, followed by padding."""
    src_pad_mask: Tensor
    """(B, S) bool, True = padding."""


class TargetBatch(NamedTuple):
    """Padded target sentences, shifted for teacher forcing."""

    tgt_in: Tensor
    """(B, T) int64, bos first."""
    tgt_out: Tensor
    """(B, T) int64, eos last: the label of each position."""
    tgt_pad_mask: Tensor
    """(B, T) bool, True = padding, of `tgt_out`."""


class Ragged(NamedTuple):
    """Rows of ids in one flat tensor, such as a memory-mapped file."""

    values: Tensor
    """(V,) ids of all rows, possibly with other data between them."""
    starts: Tensor
    """(B,) int64, offset of each row."""
    lengths: Tensor
    """(B,) int64, number of ids in each row."""


Rows = Sequence[Sequence[int]] | Ragged
"""Ids of each sentence, without bos and eos."""


def batch_sources(rows: Rows, *, pad_id: int, eos_id: int) -> SourceBatch:
    """Append eos to each source and pad."""
    ids, lengths = _pad(rows, pad_id)
    return SourceBatch(*_append_eos(ids, lengths, pad_id, eos_id))


def batch_targets(rows: Rows, *, pad_id: int, bos_id: int, eos_id: int) -> TargetBatch:
    """Build the decoder's inputs and labels: the same ids, shifted by one."""
    ids, lengths = _pad(rows, pad_id)  # (B, T - 1)
    tgt_out, pad_mask = _append_eos(ids, lengths, pad_id, eos_id)
    tgt_in = torch.cat([ids.new_full((len(ids), 1), bos_id), ids], dim=1)  # (B, T)
    return TargetBatch(tgt_in, tgt_out, pad_mask)


def _pad(rows: Rows, pad_id: int) -> tuple[Tensor, Tensor]:
    """Return padded ids (B, N) int64, N the length of the longest row, and lengths (B,)."""
    if not isinstance(rows, Ragged):
        lengths = torch.tensor([len(row) for row in rows])  # (B,)
        values = torch.tensor([token for row in rows for token in row], dtype=torch.int64)
        rows = Ragged(values, lengths.cumsum(0) - lengths, lengths)
    columns = torch.arange(int(rows.lengths.max()))  # (N,)
    is_real = columns < rows.lengths[:, None]  # (B, N)
    indices = (rows.starts[:, None] + columns)[is_real]  # (ids,)
    ids = torch.full(is_real.shape, pad_id, dtype=torch.int64)  # (B, N)
    ids[is_real] = rows.values[indices].long()
    return ids, rows.lengths


def _append_eos(ids: Tensor, lengths: Tensor, pad_id: int, eos_id: int) -> tuple[Tensor, Tensor]:
    ended = torch.cat([ids, ids.new_full((len(ids), 1), pad_id)], dim=1)  # (B, N + 1)
    ended.scatter_(1, lengths[:, None], eos_id)
    return ended, torch.arange(ended.shape[1]) > lengths[:, None]


def group_by_length(lengths: Sequence[int], max_batch_tokens: int) -> list[list[int]]:
    """Split indices into batches of similar length, each at most `max_batch_tokens` padded tokens.

    Batches are ordered longest first, so that running out of memory shows at once. A row longer
    than the limit forms its own batch.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    batches: list[list[int]] = []
    for index in order:
        if batches and lengths[batches[-1][0]] * (len(batches[-1]) + 1) <= max_batch_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches

"""Lists of token ids to padded tensors and back to order.

Takes ids without special tokens, gives (B, S) tensors with their `pad_mask`, and the shifted pair
`tgt_in` (bos first) / `tgt_out` (eos last). The only room that adds bos and eos, so training and
inference cannot drift apart. Must not know text or files.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class SourceBatch(NamedTuple):
    """Padded source sentences."""

    src_ids: Tensor
    """(B, S) int64, each row ends with eos, then pads."""
    src_pad_mask: Tensor
    """(B, S) bool, True = padding."""


class TargetBatch(NamedTuple):
    """Padded target sentences, shifted for teacher forcing."""

    tgt_in: Tensor
    """(B, T) int64, bos first."""
    tgt_out: Tensor
    """(B, T) int64, eos last; what the model should say at each position."""
    tgt_pad_mask: Tensor
    """(B, T) bool, True = padding, of `tgt_out`."""


class Ragged(NamedTuple):
    """Rows of ids that lie anywhere in one long tensor, such as a file mapped into memory."""

    values: Tensor
    """(V,) ids of all rows and whatever stands between them."""
    starts: Tensor
    """(B,) int64, where each row begins."""
    lengths: Tensor
    """(B,) int64, how many ids it has."""


def pad_rows(rows: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    """Stack rows of different lengths.

    Returns:
        ids (B, N) int64 and pad_mask (B, N) bool, N the longest row.
    """
    lengths = torch.tensor([len(row) for row in rows])  # (B,)
    n_columns = int(lengths.max())
    flat = torch.tensor([token for row in rows for token in row], dtype=torch.int64)
    pad_mask = torch.arange(n_columns)[None, :] >= lengths[:, None]  # (B, N)
    ids = torch.full((len(rows), n_columns), pad_id, dtype=torch.int64)  # (B, N)
    ids[~pad_mask] = flat
    return ids, pad_mask


def batch_sources(rows: Sequence[Sequence[int]], *, pad_id: int, eos_id: int) -> SourceBatch:
    """Append eos to each source and pad."""
    return SourceBatch(*pad_rows([[*row, eos_id] for row in rows], pad_id))


def batch_targets(
    rows: Sequence[Sequence[int]], *, pad_id: int, bos_id: int, eos_id: int
) -> TargetBatch:
    """Make the decoder's input and labels: the same ids, shifted by one."""
    tgt_in, pad_mask = pad_rows([[bos_id, *row] for row in rows], pad_id)
    tgt_out, _ = pad_rows([[*row, eos_id] for row in rows], pad_id)
    return TargetBatch(tgt_in, tgt_out, pad_mask)


def batch_ragged_sources(rows: Ragged, *, pad_id: int, eos_id: int) -> SourceBatch:
    """Do what `batch_sources` does, for rows that are no lists; ten times faster."""
    return SourceBatch(*_end_rows(_gather(rows, pad_id), rows.lengths, pad_id, eos_id))


def batch_ragged_targets(rows: Ragged, *, pad_id: int, bos_id: int, eos_id: int) -> TargetBatch:
    """Do what `batch_targets` does, for rows that are no lists."""
    ids = _gather(rows, pad_id)  # (B, T - 1)
    tgt_out, pad_mask = _end_rows(ids, rows.lengths, pad_id, eos_id)
    tgt_in = torch.cat([ids.new_full((len(ids), 1), bos_id), ids], dim=1)  # (B, T)
    return TargetBatch(tgt_in, tgt_out, pad_mask)


def _gather(rows: Ragged, pad_id: int) -> Tensor:
    """Stack the rows, padded: (B, N) int64."""
    columns = torch.arange(int(rows.lengths.max()))  # (N,)
    is_real = columns < rows.lengths[:, None]  # (B, N)
    places = (rows.starts[:, None] + columns)[is_real]  # (ids,)
    ids = torch.full(is_real.shape, pad_id, dtype=torch.int64)  # (B, N)
    ids[is_real] = rows.values[places].long()
    return ids


def _end_rows(ids: Tensor, lengths: Tensor, pad_id: int, eos_id: int) -> tuple[Tensor, Tensor]:
    """Put eos behind each row of (B, N) ids: (B, N + 1) ids and pad_mask."""
    ended = torch.cat([ids, ids.new_full((len(ids), 1), pad_id)], dim=1)  # (B, N + 1)
    ended.scatter_(1, lengths[:, None], eos_id)
    return ended, torch.arange(ended.shape[1]) > lengths[:, None]


def group_by_length(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Split indices into batches of similar length, each at most `batch_tokens` padded tokens.

    Longest first, so that a batch too large for memory shows at once. A row longer than the budget
    still gets a batch of its own.

    Returns:
        batches of indices into `lengths`, every index exactly once.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    batches: list[list[int]] = []
    for index in order:
        if batches and lengths[batches[-1][0]] * (len(batches[-1]) + 1) <= batch_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches

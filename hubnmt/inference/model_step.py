"""Adapter from a Transformer to the `Step` protocol of decoding."""

from collections.abc import Sequence

import torch
from torch import Tensor

from hubnmt.model import Transformer

ROWS_IN_CACHE = 32
"""Rows of log-probabilities that are normalized at a time on a CPU: with 8,000 pieces 1 MB."""


class ModelStep:
    """`Step` over a model, a batch of encoded sources and their decoder cache."""

    def __init__(
        self,
        model: Transformer,
        src_ids: Tensor,
        src_pad_mask: Tensor,
        *,
        forbidden_ids: Sequence[int] = (),
    ) -> None:
        """Encode the sources.

        Args:
            model: in eval mode.
            src_ids: (B, S).
            src_pad_mask: (B, S), True = padding.
            forbidden_ids: ids that no translation contains (pad, bos). The other log-probabilities
                are not renormalized, so that a search and a replay agree.
        """
        self._model = model
        pad_mask = src_pad_mask if src_pad_mask.any() else None
        self._cache = model.precompute_cross_attention(model.encode(src_ids, pad_mask), pad_mask)
        self._forbidden_ids = torch.tensor(
            list(forbidden_ids), dtype=torch.int64, device=src_ids.device
        )

    def __call__(self, last_ids: Tensor) -> Tensor:
        """Decode one position: (B, W) newest tokens to log_probs (B, W, V) float32."""
        hidden = self._model.step(last_ids, self._cache)  # (B, W, D)
        log_probs = self._model.project(hidden).float()  # (B, W, V)
        normalize_(log_probs)
        return log_probs.index_fill_(-1, self._forbidden_ids, -torch.inf)

    def reorder(self, parents: Tensor) -> None:
        """Make hypothesis w of sentence b continue `parents[b, w]`."""
        self._cache.reorder(parents)

    def keep(self, rows: Tensor) -> None:
        """Keep only the sentences at these indices."""
        self._cache.keep(rows)


def normalize_(logits: Tensor) -> None:
    """Replace logits (B, W, V) by their log-softmax.

    In place, because allocating a second tensor of this size takes longer than the computation; and
    a few rows at a time on a CPU, because PyTorch reads all rows three times.
    """
    rows = logits.flatten(0, 1)  # (B W, V)
    if rows.shape[0] <= 2 * ROWS_IN_CACHE or logits.device.type != "cpu":
        torch.log_softmax(rows, -1, out=rows)
        return
    for start in range(0, rows.shape[0], ROWS_IN_CACHE):
        part = rows[start : start + ROWS_IN_CACHE]
        torch.log_softmax(part, -1, out=part)

"""Adapter from a Transformer to the `Step` protocol of decoding."""

from collections.abc import Sequence

import torch
from torch import Tensor

from hubnmt.model import Transformer


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
        logits = self._model.project(hidden).float()  # (B, W, V)
        # In place, because allocating a second tensor of this size takes longer.
        log_probs = torch.log_softmax(logits, -1, out=logits)  # (B, W, V)
        return log_probs.index_fill_(-1, self._forbidden_ids, -torch.inf)

    def reorder(self, parents: Tensor) -> None:
        """Make hypothesis w of sentence b continue `parents[b, w]`."""
        self._cache.reorder(parents)

    def keep(self, rows: Tensor) -> None:
        """Keep only the sentences at these indices."""
        self._cache.keep(rows)

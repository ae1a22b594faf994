"""Decoder cache of the packed Transformer for a batch of sentences.

Like `model.kv_cache`, but keys and values are stored together, and a batch of several sentences
reads at least `MIN_KEYS` entries, of which the mask hides those not yet written.
"""

import torch
from torch import Tensor
from torch.nn import functional

from hubnmt.model.kv_cache import DecoderCache

MIN_KEYS = 16
"""With fewer keys, PyTorch's softmax does not fill a vector register and is up to ten times slower,
and its batched products are not vectorized."""


class PackedLayerCache:
    """Keys and values of one decoder layer."""

    def __init__(self, memory_k: Tensor, memory_v: Tensor, *, min_keys: int) -> None:
        """Start with the projected encoder output, (B, H, S, E) each, and no target tokens."""
        self.memory_k = memory_k
        self.memory_v = memory_v
        n_rows, n_heads, _, d_head = memory_k.shape
        self._kv = memory_k.new_empty(2, n_rows, n_heads, 0, d_head)  # (2, B, H, capacity, E)
        self._n_keys = 0
        self._min_keys = min_keys

    def append(self, kv: Tensor) -> tuple[Tensor, Tensor]:
        """Append the keys and values of this step, (B, W, 2, H, E).

        Returns:
            all keys and all values so far, (B, H, K or `min_keys`, E) each; unwritten entries are
            zero.
        """
        start, width = self._n_keys, kv.shape[1]
        self._n_keys = start + width
        n_read = max(self._n_keys, self._min_keys)
        if n_read > self._kv.shape[3]:
            # Targets are about as long as their sources, so this is usually the only reallocation.
            self._reallocate(start, max(2 * start, n_read, width * (self.memory_k.shape[2] + 8)))
        self._kv.narrow(3, start, width).copy_(kv.permute(2, 0, 3, 1, 4))
        k, v = self._kv.narrow(3, 0, n_read).unbind()
        return k, v

    def keep(self, rows: Tensor, moved: Tensor) -> None:
        """See `kv_cache.LayerCache.keep`; in place, so only what changes position is copied."""
        n_src_tokens = self.memory_k.shape[2]
        self.memory_k = keep_rows(self.memory_k, n_src_tokens, rows, moved)
        self.memory_v = keep_rows(self.memory_v, n_src_tokens, rows, moved)
        for part in self._kv.unbind():
            keep_rows(part, self._n_keys, rows, moved)
        self._kv = self._kv[:, : rows.shape[0]]

    def _reallocate(self, n_used: int, capacity: int) -> None:
        _, n_rows, n_heads, _, d_head = self._kv.shape
        old = self._kv.narrow(3, 0, n_used)
        self._kv = old.new_empty(2, n_rows, n_heads, capacity, d_head)
        self._kv.narrow(3, 0, n_used).copy_(old)
        if n_used < self._min_keys:  # entries read before they are written must be finite
            self._kv.narrow(3, n_used, self._min_keys - n_used).zero_()


def keep_rows(x: Tensor, n_used: int, rows: Tensor, moved: Tensor) -> Tensor:
    """Move the used part of the rows that change position, and truncate the batch."""
    if len(moved):
        used = x.narrow(2, 0, n_used)
        used.index_copy_(0, moved, used.index_select(0, rows[moved]))
    return x[: len(rows)]


class PackedCache(DecoderCache[PackedLayerCache]):
    """Cache of all decoder layers."""

    def __init__(
        self,
        layers: list[PackedLayerCache],
        memory_mask: Tensor,
        *,
        min_keys: int,
    ) -> None:
        """See `DecoderCache`.

        Args:
            layers: one cache per decoder layer.
            memory_mask: (B, 1, 1, S) bool, True = attend.
            min_keys: minimum number of entries the layers return.
        """
        super().__init__(layers, memory_mask)
        self._min_keys = min_keys
        self.memory_bias = to_bias(memory_mask, layers[0].memory_k.dtype)
        """(B, 1, 1, S) additive mask of the encoder output, None if nothing is masked; the same for
        every step."""

    def advance(self, n_queries: int) -> Tensor:
        """See `DecoderCache`: (B, 1, W, K + W or `min_keys`)."""
        mask = super().advance(n_queries)
        n_unwritten = self._min_keys - mask.shape[3]
        return functional.pad(mask, (0, n_unwritten)) if n_unwritten > 0 else mask

    def keep(self, rows: Tensor) -> None:
        """See `DecoderCache`."""
        super().keep(rows)
        self.memory_bias = to_bias(self.memory_mask, self.layers[0].memory_k.dtype)


def to_bias(mask: Tensor, dtype: torch.dtype) -> Tensor | None:
    """Convert a boolean mask to an additive one; return None if it masks nothing."""
    if mask.all():
        return None
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, -torch.inf)

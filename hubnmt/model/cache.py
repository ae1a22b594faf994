"""What the decoder remembers between two steps of a search.

Takes keys and values as they are computed, gives all of them back. Must not know search policy.

The hypotheses of one sentence are a tree: a beam that forks shares its past. So the cache only ever
appends, one entry per hypothesis and step, and *who may look at which entry* is an attention mask:
the ancestors of each hypothesis. Reordering beams copies a small mask instead of every layer's keys
and values, and in the model a beam is no special case: W hypotheses are W queries of one sentence.
"""

import torch
from torch import Tensor


class LayerCache:
    """Keys and values of one decoder layer."""

    def __init__(self, memory_k: Tensor, memory_v: Tensor) -> None:
        """Start with the projected encoder output, (B, H, S, E) each, and no target tokens."""
        self.memory_k = memory_k
        self.memory_v = memory_v
        self._k = memory_k.new_empty(0)
        self._v = memory_v.new_empty(0)
        self._n_keys = 0

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add the keys and values of this step, (B, H, Q, E) each.

        Returns:
            all keys and all values so far, (B, H, K, E) each.
        """
        end = self._n_keys + k.shape[2]
        if self._n_keys == 0:  # training ends here: nothing was copied
            self._k, self._v, self._n_keys = k, v, end
            return k, v
        if end > self._k.shape[2]:
            self._grow(k, max(2 * end, 32))
        self._k[:, :, self._n_keys : end] = k
        self._v[:, :, self._n_keys : end] = v
        self._n_keys = end
        return self._k[:, :, :end], self._v[:, :, :end]  # (B, H, K, E)

    def keep(self, rows: Tensor) -> None:
        """Keep only these sentences; rows is (B',) int64."""
        self.memory_k = self.memory_k.index_select(0, rows)
        self.memory_v = self.memory_v.index_select(0, rows)
        if self._n_keys:
            self._k = self._k.index_select(0, rows)
            self._v = self._v.index_select(0, rows)

    def _grow(self, like: Tensor, capacity: int) -> None:
        """Double the room, so that appending costs constant time on average."""
        old_k, old_v = self._k, self._v
        n_rows, n_heads, _, d_head = like.shape
        self._k = like.new_empty(n_rows, n_heads, capacity, d_head)
        self._v = like.new_empty(n_rows, n_heads, capacity, d_head)
        self._k[:, :, : self._n_keys] = old_k[:, :, : self._n_keys]
        self._v[:, :, : self._n_keys] = old_v[:, :, : self._n_keys]


class DecoderCache:
    """All layers' keys and values, and the family tree of the hypotheses."""

    def __init__(self, layers: list[LayerCache], memory_mask: Tensor) -> None:
        """Start without target tokens.

        Args:
            layers: one cache per decoder layer.
            memory_mask: (B, 1, 1, S) bool, True = may look.
        """
        self.layers = layers
        self.memory_mask = memory_mask
        self.n_positions = 0
        """Target positions decoded so far: where the next token stands."""
        n_rows = memory_mask.shape[0]
        self._ancestors = torch.ones(n_rows, 1, 0, dtype=torch.bool, device=memory_mask.device)
        """(B, W, K), True = this entry is the hypothesis itself or its past."""

    def advance(self, n_queries: int) -> Tensor:
        """Make room for one new token per hypothesis.

        Args:
            n_queries: W, hypotheses per sentence.

        Returns:
            (B, 1, W, K + W) bool, True = may look: ancestors and itself.
        """
        device = self._ancestors.device
        if n_queries != self._ancestors.shape[1]:
            raise ValueError(f"{n_queries} hypotheses, but {self._ancestors.shape[1]} are known")
        own = torch.eye(n_queries, dtype=torch.bool, device=device)  # (W, W)
        own = own.expand(self._ancestors.shape[0], -1, -1)  # (B, W, W)
        self._ancestors = torch.cat((self._ancestors, own), dim=2)  # (B, W, K + W)
        self.n_positions += 1
        return self._ancestors[:, None]  # (B, 1, W, K + W)

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis w of sentence b descend from `parents[b, w]`; (B, W') int64."""
        n_keys = self._ancestors.shape[2]
        index = parents[:, :, None].expand(-1, -1, n_keys)  # (B, W', K)
        self._ancestors = self._ancestors.gather(1, index)  # (B, W', K)

    def keep(self, rows: Tensor) -> None:
        """Keep only these sentences; rows is (B',) int64."""
        for layer in self.layers:
            layer.keep(rows)
        self.memory_mask = self.memory_mask[rows]
        self._ancestors = self._ancestors[rows]

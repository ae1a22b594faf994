"""What the decoder remembers between two steps of a search.

Takes keys and values as they are computed, gives all of them back. Must not know search policy.

The hypotheses of one sentence are a tree: a beam that forks shares its past. So the cache only ever
appends, one entry per hypothesis and step, and *who may look at which entry* is an attention mask:
the ancestors of each hypothesis. Reordering beams copies a small mask instead of every layer's keys
and values, and in the model a beam is no special case: W hypotheses are W queries of one sentence.
"""

from typing import Generic, Protocol, TypeVar

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
        start, end = self._n_keys, self._n_keys + k.shape[2]
        self._n_keys = end
        if start == 0:  # training ends here: nothing was copied
            self._k, self._v = k, v
            return k, v
        if end > self._v.shape[2]:
            # Targets are about as long as their sources: as a rule this is the last growth, too.
            n_expected = k.shape[2] * (self.memory_k.shape[2] + 8)
            self._grow(start, max(2 * start, end, n_expected))
        self._k.narrow(2, start, end - start).copy_(k)
        self._v.narrow(2, start, end - start).copy_(v)
        return self._k.narrow(2, 0, end), self._v.narrow(2, 0, end)  # (B, H, K, E)

    def keep(self, rows: Tensor, moved: Tensor) -> None:
        """Keep only these sentences, in place; see `DecoderCache.keep`.

        Args:
            rows: (B',) int64.
            moved: places in `rows` whose sentence stood elsewhere before.
        """
        n_src_tokens = self.memory_k.shape[2]
        self.memory_k = keep_rows(self.memory_k, n_src_tokens, rows, moved)
        self.memory_v = keep_rows(self.memory_v, n_src_tokens, rows, moved)
        if self._n_keys:
            self._k = keep_rows(self._k, self._n_keys, rows, moved)
            self._v = keep_rows(self._v, self._n_keys, rows, moved)

    def _grow(self, n_keys: int, capacity: int) -> None:
        """Double the room, so that appending costs constant time on average."""
        old_k, old_v = self._k, self._v
        n_rows, n_heads, _, d_head = old_v.shape
        self._k = old_k.new_empty(n_rows, n_heads, capacity, d_head)
        self._v = old_v.new_empty(n_rows, n_heads, capacity, d_head)
        self._k[:, :, :n_keys] = old_k[:, :, :n_keys]
        self._v[:, :, :n_keys] = old_v[:, :, :n_keys]


def keep_rows(x: Tensor, n_used: int, rows: Tensor, moved: Tensor) -> Tensor:
    """Move what is used of those rows that are not in their place yet; leave off the end."""
    if len(moved):
        used = x.narrow(2, 0, n_used)
        used.index_copy_(0, moved, used.index_select(0, rows[moved]))
    return x[: len(rows)]


class Kept(Protocol):
    """What a decoder layer remembers of each sentence."""

    def keep(self, rows: Tensor, moved: Tensor) -> None:
        """See `LayerCache.keep`."""
        ...


L = TypeVar("L", bound=Kept)


class DecoderCache(Generic[L]):
    """All layers' keys and values, and the family tree of the hypotheses."""

    def __init__(self, layers: list[L], memory_mask: Tensor) -> None:
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
        self._own = torch.ones(n_rows, 1, 1, dtype=torch.bool, device=memory_mask.device)
        """(B, W, W), what a step adds: each hypothesis sees its own entry."""

    def advance(self, n_queries: int) -> Tensor:
        """Make room for one new token per hypothesis.

        Args:
            n_queries: W, hypotheses per sentence.

        Returns:
            (B, 1, W, K + W) bool, True = may look: ancestors and itself.
        """
        n_rows, n_known, _ = self._ancestors.shape
        if n_queries != n_known:
            raise ValueError(f"{n_queries} hypotheses, but {n_known} are known")
        if self._own.shape[:2] != (n_rows, n_queries):
            own = torch.eye(n_queries, dtype=torch.bool, device=self._ancestors.device)
            self._own = own.expand(n_rows, -1, -1)  # (B, W, W)
        self._ancestors = torch.cat((self._ancestors, self._own), dim=2)  # (B, W, K + W)
        self.n_positions += 1
        return self._ancestors[:, None]  # (B, 1, W, K + W)

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis w of sentence b descend from `parents[b, w]`; (B, W') int64."""
        n_keys = self._ancestors.shape[2]
        index = parents[:, :, None].expand(-1, -1, n_keys)  # (B, W', K)
        self._ancestors = self._ancestors.gather(1, index)  # (B, W', K)

    def keep(self, rows: Tensor) -> None:
        """Keep only these sentences; rows is (B',) int64, each at most once.

        What stays in its place costs nothing, so a search does well to fill gaps from the end.
        """
        moved = (rows != torch.arange(len(rows), device=rows.device)).nonzero()[:, 0]
        for layer in self.layers:
            layer.keep(rows, moved)
        self.memory_mask = self.memory_mask[rows]
        self._ancestors = self._ancestors[rows]

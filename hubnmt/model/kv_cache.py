"""Key-value cache of the decoder, with an ancestor mask for beam search.

The hypotheses of one sentence share their common prefixes. The cache only appends, one entry per
hypothesis and step, and an attention mask selects the ancestors of each hypothesis. Reordering the
beam copies this small mask instead of every layer's keys and values, and the W hypotheses of a
sentence are simply W queries.
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
        self.k: Tensor | None = None
        self.v: Tensor | None = None

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append the keys and values of this step, (B, H, Q, E) each.

        Returns:
            all keys and all values so far, (B, H, K, E) each.
        """
        if self.k is not None and self.v is not None:
            k, v = torch.cat((self.k, k), dim=2), torch.cat((self.v, v), dim=2)  # (B, H, K, E)
        self.k, self.v = k, v
        return k, v

    def keep(self, rows: Tensor, moved: Tensor) -> None:
        """Keep only these sentences; see `DecoderCache.keep`.

        Args:
            rows: (B',) int64.
            moved: positions in `rows` whose sentence changes its position.
        """
        self.memory_k, self.memory_v = self.memory_k[rows], self.memory_v[rows]
        if self.k is not None and self.v is not None:
            self.k, self.v = self.k[rows], self.v[rows]


class Kept(Protocol):
    """A per-layer cache that can drop sentences."""

    def keep(self, rows: Tensor, moved: Tensor) -> None:
        """See `LayerCache.keep`."""
        ...


L = TypeVar("L", bound=Kept)


class DecoderCache(Generic[L]):
    """Keys and values of all layers, and the ancestor mask of the beam."""

    def __init__(self, layers: list[L], memory_mask: Tensor) -> None:
        """Start without target tokens.

        Args:
            layers: one cache per decoder layer.
            memory_mask: (B, 1, 1, S) bool, True = attend.
        """
        self.layers = layers
        self.memory_mask = memory_mask
        self.n_positions = 0
        """Number of target positions decoded so far: the position of the next token."""
        n_rows = memory_mask.shape[0]
        self._ancestors = torch.ones(n_rows, 1, 0, dtype=torch.bool, device=memory_mask.device)
        """(B, W, K), True = the entry belongs to the hypothesis or one of its ancestors."""
        self._own = torch.ones(n_rows, 1, 1, dtype=torch.bool, device=memory_mask.device)
        """(B, W, W), the columns each step appends: each hypothesis attends to its own entry."""

    def advance(self, n_queries: int) -> Tensor:
        """Extend the ancestor mask by one new token per hypothesis.

        Args:
            n_queries: W, hypotheses per sentence.

        Returns:
            (B, 1, W, K + W) bool, True = attend: ancestors and the hypothesis itself.
        """
        n_rows, n_known, _ = self._ancestors.shape
        if n_queries != n_known:
            raise ValueError(
                f"got {n_queries} hypotheses, but the cache holds {n_known}; reorder it first"
            )
        if self._own.shape[:2] != (n_rows, n_queries):
            own = torch.eye(n_queries, dtype=torch.bool, device=self._ancestors.device)
            self._own = own.expand(n_rows, -1, -1)  # (B, W, W)
        self._ancestors = torch.cat((self._ancestors, self._own), dim=2)  # (B, W, K + W)
        self.n_positions += 1
        return self._ancestors[:, None]  # (B, 1, W, K + W)

    def reorder(self, parents: Tensor) -> None:
        """Make hypothesis w of sentence b continue `parents[b, w]`; parents is (B, W') int64."""
        n_keys = self._ancestors.shape[2]
        index = parents[:, :, None].expand(-1, -1, n_keys)  # (B, W', K)
        self._ancestors = self._ancestors.gather(1, index)  # (B, W', K)

    def keep(self, rows: Tensor) -> None:
        """Keep only these sentences; rows is (B',) int64, each at most once.

        Only sentences that change position are copied, so fill gaps from the end.
        """
        moved = (rows != torch.arange(len(rows), device=rows.device)).nonzero()[:, 0]
        for layer in self.layers:
            layer.keep(rows, moved)
        self.memory_mask = self.memory_mask[rows]
        self._ancestors = self._ancestors[rows]

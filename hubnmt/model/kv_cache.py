"""Key-value cache of the decoder, with an ancestor mask for beam search.

The hypotheses of one sentence share their common prefixes. The cache appends one entry per
hypothesis and step, and an attention mask selects the ancestors of each hypothesis. Reordering the
beam copies this small mask instead of every layer's keys and values, and the W hypotheses of a
sentence are simply W queries. From time to time entries that no hypothesis needs are dropped.
"""

import torch
from torch import Tensor

N_STEPS_KEPT = 16
"""Steps after which entries are dropped: to drop them copies the others."""


class LayerCache:
    """Keys and values of one decoder layer."""

    def __init__(self, memory_k: Tensor, memory_v: Tensor) -> None:
        """Start with the projected encoder output, (B, H, S, E) each, and no target tokens."""
        self.memory_k = memory_k
        self.memory_v = memory_v
        self._k = self._v = memory_k[:, :, :0]  # (B, H, capacity, E) each, larger than what is used
        self._n_keys = 0

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append keys and values (B, H, Q, E); return all so far, (B, H, K, E) each."""
        start, end = self._n_keys, self._n_keys + k.shape[2]
        self._n_keys = end
        if start == 0:  # teacher forcing appends once, and needs no copy
            self._k, self._v = k, v
            return k, v
        if end > self._k.shape[2]:
            # Targets are about as long as their sources, so usually the buffers grow only once.
            n_unused = (end - start) * (N_STEPS_KEPT + 1)
            capacity = max(2 * start, self.memory_k.shape[2] + 8 + n_unused)
            self._k = _grow(self._k, start, capacity)
            self._v = _grow(self._v, start, capacity)
        self._k.narrow(2, start, end - start).copy_(k)
        self._v.narrow(2, start, end - start).copy_(v)
        return self._k.narrow(2, 0, end), self._v.narrow(2, 0, end)

    def select(self, entries: Tensor) -> None:
        """Keep only the given entries of each sentence, (B, n), in this order."""
        self._n_keys = entries.shape[1]
        for x in (self._k, self._v):
            n_rows, n_heads, capacity, _ = x.shape
            first = torch.arange(0, n_rows * n_heads * capacity, capacity, device=x.device)
            rows = first.view(n_rows, n_heads, 1) + entries[:, None]  # (B, H, n) among B H capacity
            x[:, :, : self._n_keys] = torch.embedding(x.flatten(0, 2), rows)  # (B, H, n, E)

    def keep(self, rows: Tensor, moved: Tensor) -> None:
        """Keep only the sentences `rows` (B',), of which those at `moved` change their position."""
        n_src_tokens = self.memory_k.shape[2]
        self.memory_k = _keep(self.memory_k, n_src_tokens, rows, moved)
        self.memory_v = _keep(self.memory_v, n_src_tokens, rows, moved)
        self._k = _keep(self._k, self._n_keys, rows, moved)
        self._v = _keep(self._v, self._n_keys, rows, moved)


def _grow(x: Tensor, n_used: int, capacity: int) -> Tensor:
    """Copy the used part of (B, H, n, E) to a buffer (B, H, capacity, E)."""
    n_rows, n_heads, _, d_head = x.shape
    larger = x.new_empty(n_rows, n_heads, capacity, d_head)
    larger[:, :, :n_used] = x[:, :, :n_used]
    return larger


def _keep(x: Tensor, n_used: int, rows: Tensor, moved: Tensor) -> Tensor:
    """Move the used part of the sentences that change position, and drop the others' rows."""
    if len(moved):
        used = x[:, :, :n_used]
        used.index_copy_(0, moved, used.index_select(0, rows[moved]))
    return x[: len(rows)]


class DecoderCache:
    """Keys and values of all layers, and the ancestor mask of the beam."""

    def __init__(self, layers: list[LayerCache], memory_mask: Tensor | None) -> None:
        """Start without target tokens; memory_mask is (B, 1, 1, S) bool, True = attend, or None."""
        self.layers = layers
        self.memory_mask = memory_mask
        self.n_positions = 0
        """Number of target positions decoded so far: the position of the next token."""
        self._ancestors: Tensor | None = None
        """(B, W, K), True = the entry belongs to the hypothesis or one of its ancestors. None while
        each sentence has had one hypothesis, to which all entries belong."""
        self._n_needed = 0
        """Number of entries after those that no hypothesis needs were last dropped."""

    def advance(self, n_queries: int) -> Tensor | None:
        """Extend the ancestor mask by one new token for each of the W = `n_queries` hypotheses.

        Returns:
            (B, 1, W, K + W) bool, True = attend: ancestors and the hypothesis itself; None = attend
            to all.
        """
        n_known = 1 if self._ancestors is None else self._ancestors.shape[1]
        if n_queries != n_known:
            raise ValueError(
                f"got {n_queries} hypotheses, but the cache holds {n_known}; reorder it first"
            )
        self.n_positions += 1
        if self._ancestors is None:
            return None
        if self._ancestors.shape[2] - self._n_needed >= N_STEPS_KEPT * n_queries > N_STEPS_KEPT:
            self._drop_unneeded()
        own = torch.eye(n_queries, dtype=torch.bool, device=self._ancestors.device)
        own = own.expand(len(self._ancestors), -1, -1)  # (B, W, W)
        self._ancestors = torch.cat((self._ancestors, own), dim=2)  # (B, W, K + W)
        return self._ancestors[:, None]  # (B, 1, W, K + W)

    def _drop_unneeded(self) -> None:
        assert self._ancestors is not None
        is_needed = self._ancestors.any(1)  # (B, K)
        self._n_needed = int(is_needed.sum(1).amax())
        entries = is_needed.sort(descending=True, stable=True).indices[
            :, : self._n_needed
        ]  # (B, n)
        index = entries[:, None].expand(-1, self._ancestors.shape[1], -1)
        self._ancestors = self._ancestors.gather(2, index)  # (B, W, n)
        for layer in self.layers:
            layer.select(entries)

    def reorder(self, parents: Tensor) -> None:
        """Make hypothesis w of sentence b continue `parents[b, w]`; parents is (B, W') int64."""
        if self._ancestors is None:
            if parents.shape[1] == 1:
                return
            n_rows, n_keys = len(parents), self.n_positions
            self._ancestors = parents.new_ones(n_rows, 1, n_keys, dtype=torch.bool)  # (B, 1, K)
        index = parents[:, :, None].expand(-1, -1, self._ancestors.shape[2])  # (B, W', K)
        self._ancestors = self._ancestors.gather(1, index)  # (B, W', K)

    def keep(self, rows: Tensor) -> None:
        """Keep only these sentences; rows is (B',) int64, each at most once.

        Only sentences that change position are copied, so fill gaps from the end.
        """
        moved = (rows != torch.arange(len(rows), device=rows.device)).nonzero()[:, 0]
        for layer in self.layers:
            layer.keep(rows, moved)
        if self.memory_mask is not None:
            self.memory_mask = self.memory_mask[rows]
        if self._ancestors is not None:
            self._ancestors = self._ancestors[rows]

"""Decoder cache of one sentence decoded alone, laid out for few calls per step.

For each layer, cross-attention is folded into two matrices. Queries, keys and values stay where
their projection writes them, one row per hypothesis, and heads are views of these rows. Such views
cannot be multiplied for several sentences at once; those use `packed_cache`.
"""

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from hubnmt.inference.packed_layers import Affine, PackedDecoderLayer, Residual


@dataclasses.dataclass(frozen=True, slots=True)
class FoldedCrossAttention:
    """One decoder layer's cross-attention to one sentence, folded into two matrices.

    For a fixed source the scores of all heads are affine in the decoder state:
    (x Wq + bq) K' = x (Wq K') + bq K'. Likewise, weighting the values and projecting the result is
    one product with V Wo. As each head's weights sum to 1, its rows can carry a share of the bias.
    """

    score: Affine
    """(D, H S) and (H S,)."""
    mix: Tensor
    """(H S, D)."""
    n_src_tokens: int

    @classmethod
    def of(cls, layer: PackedDecoderLayer, memory: Tensor, n_heads: int) -> "FoldedCrossAttention":
        """Fold the layer's projections with the encoder output (S, D)."""
        n_src_tokens, d_model = memory.shape
        by_head = layer.cross_kv(memory).view(n_src_tokens, 2, n_heads, -1)  # (S, 2, H, E)
        k, v = by_head.permute(1, 2, 3, 0).unbind()  # (H, E, S) each
        out = layer.cross_residual.out
        wq = layer.cross_q.weight.view(d_model, n_heads, -1).transpose(0, 1)  # (H, D, E)
        bq = layer.cross_q.bias.view(n_heads, 1, -1)  # (H, 1, E)
        score = torch.bmm(wq, k).transpose(0, 1).reshape(d_model, -1)  # (D, H S)
        wo = out.weight.view(n_heads, -1, d_model)  # (H, E, D)
        mix = torch.bmm(v.transpose(1, 2), wo).flatten(0, 1)  # (H S, D)
        share = out.bias / n_heads
        return cls(Affine(score, torch.bmm(bq, k).flatten()), mix.add_(share), n_src_tokens)

    def __call__(self, x: Tensor, residual: Residual) -> Tensor:
        """Map the hidden states (W, D) of the sentence's hypotheses to (W, D)."""
        scores = self.score(residual.pre_norm(x)).view(-1, self.n_src_tokens)  # (W H, S)
        x = x.addmm_(scores.softmax(-1).view(x.shape[0], -1), self.mix)
        return x if residual.norm_first else residual.norm(x)


class SentenceCache:
    """Cache of all decoder layers; see `kv_cache.DecoderCache` for the ancestor mask."""

    def __init__(self, cross: Sequence[FoldedCrossAttention], n_heads: int) -> None:
        """Start without target tokens, with one folded cross-attention per layer."""
        self.cross = cross
        self.n_positions = 0
        """Number of target positions decoded so far: the position of the next token."""
        self._n_keys = 0
        self._ancestors: Tensor | None = None
        """(W, K) additive mask: 0 for the hypothesis and its ancestors, -inf elsewhere. None while
        there is one hypothesis, which attends to all entries."""
        self._own: Tensor
        """(W, W), the columns that each step appends to it."""
        heads = (3, n_heads, cross[0].mix.shape[1] // n_heads)
        self._set_buffer(cross[0].mix.new_empty(len(cross), 0, *heads))

    def advance(self, width: int) -> tuple[Tensor | None, list[tuple[Tensor, ...]]]:
        """Allocate one new token for each of W hypotheses.

        Returns:
            additive mask of the scores (W, K + W), None if nothing is masked; and for each layer
            the output buffer of its QKV projection (W, 3 D), and views of the queries (H, W, E),
            keys (H, E, K + W) and values (H, K + W, E) in it.
        """
        n_known = 1 if self._ancestors is None else self._ancestors.shape[0]
        if width != n_known:
            raise ValueError(
                f"got {width} hypotheses, but the cache holds {n_known}; reorder it first"
            )
        start, end = self._n_keys, self._n_keys + width
        if self._ancestors is not None:
            if self._own.shape[0] != width:
                self._own = self._own.new_full((width, width), -torch.inf).fill_diagonal_(0)
            self._ancestors = torch.cat((self._ancestors, self._own), dim=1)  # (W, K + W)
        if end > self._rows.shape[1]:
            # Targets are about as long as their sources, so this is usually the only reallocation.
            self._reallocate(max(2 * start, end, width * (self.cross[0].n_src_tokens + 8)))
        self.n_positions += 1
        self._n_keys = end
        views = (
            self._rows.narrow(1, start, width).unbind(),
            self._q.narrow(2, start, width).unbind(),
            self._k.narrow(3, 0, end).unbind(),
            self._v.narrow(2, 0, end).unbind(),
        )
        return self._ancestors, list(zip(*views, strict=True))

    def reorder(self, parents: Tensor) -> None:
        """Make hypothesis w continue `parents[0, w]`; parents is (1, W') int64."""
        if self._ancestors is None:
            if parents.shape[1] == 1:
                return
            self._own = self._rows.new_zeros(1, 1)
            self._ancestors = self._rows.new_zeros(1, self._n_keys)
        self._ancestors = self._ancestors.index_select(0, parents[0])

    def keep(self, rows: Tensor) -> None:
        """Do nothing: once its only sentence is finished, the search ends."""

    def _reallocate(self, capacity: int) -> None:
        n_layers, _, *heads = self._buffer.shape
        old = self._buffer.narrow(1, 0, self._n_keys)
        new = old.new_empty(n_layers, capacity, *heads)
        new.narrow(1, 0, self._n_keys).copy_(old)
        self._set_buffer(new)

    def _set_buffer(self, buffer: Tensor) -> None:
        """Store a buffer (L, capacity, 3, H, E) and the views of it that a step needs."""
        self._buffer = buffer
        self._rows = buffer.flatten(2)  # (L, capacity, 3 D)
        q, k, v = buffer.unbind(2)  # (L, capacity, H, E) each
        self._q = q.transpose(1, 2)  # (L, H, capacity, E)
        self._k = k.permute(0, 2, 3, 1)  # (L, H, E, capacity)
        self._v = v.transpose(1, 2)  # (L, H, capacity, E)

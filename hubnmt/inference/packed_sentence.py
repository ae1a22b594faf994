"""What the packed decoder remembers of one sentence translated alone.

Takes the encoder's output and what a step computes, gives all of it back, laid out so that a step
makes as few calls as it can: on a small model those are its time. Must not know search policy.

The source is multiplied out into two matrices a layer. A step's queries, keys and values stay where
their projection writes them, in one row per hypothesis, and heads are views of these rows. Several
sentences cannot be multiplied in such views, so for them there is `packed_cache`.
"""

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from hubnmt.inference.packed_layers import Affine, Frame, PackedDecoderLayer


@dataclasses.dataclass(frozen=True, slots=True)
class FoldedCrossAttention:
    """One decoder layer's cross-attention to one sentence, as two matrices.

    While the source does not change, the scores of all heads are affine in the query's stream:
    (x Wq + bq) K' = x (Wq K') + bq K'. Likewise mixing and projecting is one product with V Wo; as
    each head's weights sum to 1, its rows can carry a share of the bias.
    """

    score: Affine
    """(D, H S) and (H S,)."""
    mix: Tensor
    """(H S, D)."""
    n_src_tokens: int

    @classmethod
    def of(cls, layer: PackedDecoderLayer, memory: Tensor, n_heads: int) -> "FoldedCrossAttention":
        """Multiply out for the encoder's output (S, D)."""
        n_src_tokens, d_model = memory.shape
        by_head = layer.cross_kv(memory).view(n_src_tokens, 2, n_heads, -1)  # (S, 2, H, E)
        k, v = by_head.permute(1, 2, 3, 0).unbind()  # (H, E, S) each
        out = layer.cross_frame.out
        wq = layer.cross_q.weight.view(d_model, n_heads, -1).transpose(0, 1)  # (H, D, E)
        bq = layer.cross_q.bias.view(n_heads, 1, -1)  # (H, 1, E)
        score = torch.bmm(wq, k).transpose(0, 1).reshape(d_model, -1)  # (D, H S)
        wo = out.weight.view(n_heads, -1, d_model)  # (H, E, D)
        mix = torch.bmm(v.transpose(1, 2), wo).flatten(0, 1)  # (H S, D)
        share = out.bias / n_heads
        return cls(Affine(score, torch.bmm(bq, k).flatten()), mix.add_(share), n_src_tokens)

    def __call__(self, x: Tensor, frame: Frame) -> Tensor:
        """Map the stream (W, D) of the sentence's hypotheses to (W, D)."""
        scores = self.score(frame.enter(x)).view(-1, self.n_src_tokens)  # (W H, S)
        x = x.addmm_(scores.softmax(-1).view(len(x), -1), self.mix)
        return x if frame.norm_first else frame.norm(x)


class SentenceCache:
    """What all decoder layers remember; see `cache.DecoderCache` for the family tree."""

    def __init__(self, readings: Sequence[FoldedCrossAttention], n_heads: int) -> None:
        """Start without target tokens, with one reading per layer."""
        self.readings = readings
        self.n_positions = 0
        """Target positions decoded so far: where the next token stands."""
        self._n_keys = 0
        self._ancestors: Tensor | None = None
        """(W, K), 0 = this entry is the hypothesis itself or its past, -inf = it is not. None = so
        far there was one hypothesis, and it sees all."""
        self._own: Tensor
        """(W, W), what a step adds to it."""
        heads = (3, n_heads, readings[0].mix.shape[1] // n_heads)
        self._hold(readings[0].mix.new_empty(len(readings), 0, *heads))

    def advance(self, width: int) -> tuple[Tensor | None, list[tuple[Tensor, ...]]]:
        """Make room for one new token for each of W hypotheses.

        Returns:
            summands for scores (W, K + W), None where all may look at all; and for each layer where
            its projection belongs, (W, 3 D), and its queries (H, W, E), keys (H, E, K + W) and
            values (H, K + W, E), which that will fill.
        """
        n_known = 1 if self._ancestors is None else len(self._ancestors)
        if width != n_known:
            raise ValueError(f"{width} hypotheses, but {n_known} are known")
        start, end = self._n_keys, self._n_keys + width
        if self._ancestors is not None:
            if self._own.shape[0] != width:
                self._own = self._own.new_full((width, width), -torch.inf).fill_diagonal_(0)
            self._ancestors = torch.cat((self._ancestors, self._own), dim=1)  # (W, K + W)
        if end > self._rows.shape[1]:
            # Targets are about as long as their sources: as a rule this is the last growth, too.
            self._grow(max(2 * start, end, width * (self.readings[0].n_src_tokens + 8)))
        self.n_positions += 1
        self._n_keys = end
        places = (
            self._rows.narrow(1, start, width).unbind(),
            self._q.narrow(2, start, width).unbind(),
            self._k.narrow(3, 0, end).unbind(),
            self._v.narrow(2, 0, end).unbind(),
        )
        return self._ancestors, list(zip(*places, strict=True))

    def reorder(self, parents: Tensor) -> None:
        """Let hypothesis w descend from `parents[0, w]`; (1, W') int64."""
        if self._ancestors is None:
            if parents.shape[1] == 1:
                return
            self._own = self._rows.new_zeros(1, 1)
            self._ancestors = self._rows.new_zeros(1, self._n_keys)
        self._ancestors = self._ancestors.index_select(0, parents[0])

    def keep(self, rows: Tensor) -> None:
        """Do nothing: a search that drops its one sentence is over."""

    def _grow(self, room: int) -> None:
        n_layers, _, *heads = self._held.shape
        old = self._held.narrow(1, 0, self._n_keys)
        new = old.new_empty(n_layers, room, *heads)
        new.narrow(1, 0, self._n_keys).copy_(old)
        self._hold(new)

    def _hold(self, held: Tensor) -> None:
        """Look at (L, room, 3, H, E) in all the ways that a step needs."""
        self._held = held
        self._rows = held.flatten(2)  # (L, room, 3 D)
        q, k, v = held.unbind(2)  # (L, room, H, E) each
        self._q = q.transpose(1, 2)  # (L, H, room, E)
        self._k = k.permute(0, 2, 3, 1)  # (L, H, E, room)
        self._v = v.transpose(1, 2)  # (L, H, room, E)

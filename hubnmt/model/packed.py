"""The same Transformer, its weights laid out for translating fast.

Takes a `Transformer` in eval mode, gives the same `encode`, `remember`, `step` and `project`,
number for number up to rounding. Must not know search. `transformer` and its rooms are the readable
reference; here every sum that can be done once is done once:

- matrices are stored (in, out), which few rows multiply twice as fast on a CPU;
- 1 / sqrt(E) is part of the query projection;
- a residual sum and the product that feeds it are one operation, in place;
- no module is called, since on a small model a call costs as much as its arithmetic;
- one query per hypothesis goes through two batched products, not through the fused kernel, whose
  start-up outweighs them; a mask without effect is left out.

Weights are copied when the object is made; later changes of the model do not reach it. On measured
effects see tests/benchmarks/RESULTS.md.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from hubnmt.masks import permit_tokens
from hubnmt.model.attention import MultiHeadAttention
from hubnmt.model.cache import DecoderCache, LayerCache
from hubnmt.model.feed_forward import FeedForward
from hubnmt.model.layers import DecoderLayer, EncoderLayer, SubLayer
from hubnmt.model.transformer import Transformer


@dataclasses.dataclass(frozen=True, slots=True)
class _Affine:
    """x W + b, with W (in, out)."""

    weight: Tensor
    bias: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Map (N, in) to (N, out)."""
        return torch.addmm(self.bias, x, self.weight)


@dataclasses.dataclass(frozen=True, slots=True)
class _Norm:
    """Layer norm."""

    weight: Tensor
    bias: Tensor
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        """Map (N, D) to (N, D)."""
        return torch.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


@dataclasses.dataclass(frozen=True, slots=True)
class _Frame:
    """The frame around a block, and the block's last projection, which ends in the residual sum."""

    norm: _Norm
    norm_first: bool
    out: _Affine

    def enter(self, x: Tensor) -> Tensor:
        """Give what the block works on: (N, D) to (N, D)."""
        return self.norm(x) if self.norm_first else x

    def leave(self, x: Tensor, inner: Tensor) -> Tensor:
        """Add the projected `inner` (N, in) to the stream x (N, D), which is overwritten."""
        x = x.add_(self.out.bias).addmm_(inner, self.out.weight)
        return x if self.norm_first else self.norm(x)


@dataclasses.dataclass(frozen=True, slots=True)
class _FeedForward:
    """The position-wise network in its frame."""

    widen: _Affine
    activate: Callable[[Tensor], Tensor]
    frame: _Frame

    def __call__(self, x: Tensor) -> Tensor:
        """Map (N, D) to (N, D)."""
        return self.frame.leave(x, self.activate(self.widen(self.frame.enter(x))))


@dataclasses.dataclass(frozen=True, slots=True)
class _EncoderLayer:
    qkv: _Affine
    self_frame: _Frame
    feed_forward: _FeedForward


@dataclasses.dataclass(frozen=True, slots=True)
class _DecoderLayer:
    qkv: _Affine
    self_frame: _Frame
    cross_q: _Affine
    cross_kv: _Affine
    cross_frame: _Frame
    feed_forward: _FeedForward


@dataclasses.dataclass(frozen=True, slots=True)
class _Reading:
    """One decoder layer's cross-attention to one sentence, as two matrices.

    While the source does not change, the scores of all heads are affine in the query's stream:
    (x Wq + bq) K' = x (Wq K') + bq K'. Likewise mixing and projecting is one product with V Wo; as
    each head's weights sum to 1, its rows can carry a share of the bias.
    """

    score: _Affine
    """(D, H S) and (H S,)."""
    mix: Tensor
    """(H S, D)."""
    n_src_tokens: int

    @classmethod
    def of(cls, layer: _DecoderLayer, k: Tensor, v: Tensor) -> "_Reading":
        """Multiply out for keys and values (H, S, E) each."""
        n_heads, n_src_tokens, d_head = k.shape
        out = layer.cross_frame.out
        wq = layer.cross_q.weight.view(-1, n_heads, d_head).transpose(0, 1)  # (H, D, E)
        bq = layer.cross_q.bias.view(n_heads, 1, d_head)
        by_feature = k.transpose(1, 2)  # (H, E, S)
        score = torch.bmm(wq, by_feature).transpose(0, 1).flatten(1)  # (D, H S)
        mix = torch.bmm(v, out.weight.view(n_heads, d_head, -1)).flatten(0, 1)  # (H S, D)
        share = out.bias / n_heads
        return cls(_Affine(score, torch.bmm(bq, by_feature).flatten()), mix + share, n_src_tokens)

    def __call__(self, x: Tensor, frame: _Frame) -> Tensor:
        """Map the stream (W, D) of one sentence's hypotheses to (W, D)."""
        scores = self.score(frame.enter(x)).view(-1, self.n_src_tokens)  # (W H, S)
        x = x.addmm_(scores.softmax(-1).view(len(x), -1), self.mix)
        return x if frame.norm_first else frame.norm(x)


class PackedCache(DecoderCache):
    """What the decoder remembers, and its cross-attentions multiplied out where that pays."""

    def __init__(
        self, layers: list[LayerCache], memory_mask: Tensor, readings: list[_Reading]
    ) -> None:
        """See `DecoderCache`; `readings` is empty, or one per layer if there is one sentence."""
        super().__init__(layers, memory_mask)
        self.readings = readings


class PackedTransformer:
    """A `Transformer` to translate with; see there for the four methods."""

    def __init__(self, model: Transformer) -> None:
        """Copy the weights of a model in eval mode."""
        _keep_freed_memory()
        with torch.no_grad():
            self._n_heads = model.config.n_heads
            self._scale = math.sqrt(model.config.d_model)
            self._positions = model.positions
            self._src_table = model.src_embedding.weight.detach()  # (V source, D)
            self._tgt_table = model.tgt_embedding.weight.detach()  # (V, D)
            self._encoder = [
                _pack_encoder_layer(cast(EncoderLayer, layer)) for layer in model.encoder.layers
            ]
            self._decoder = [
                _pack_decoder_layer(cast(DecoderLayer, layer)) for layer in model.decoder.layers
            ]
            self._encoder_norm = _pack_final_norm(model.encoder.final_norm)
            self._decoder_norm = _pack_final_norm(model.decoder.final_norm)
            self._output = _transpose(model.output_proj.weight)  # (D, V)

    def encode(self, src_ids: Tensor, src_pad_mask: Tensor) -> Tensor:
        """Read the source: ids (B, S), pad mask (B, S), True = padding, to memory (B, S, D)."""
        n_rows, n_tokens = src_ids.shape
        mask = None if not src_pad_mask.any() else permit_tokens(src_pad_mask)
        x = self._embed(self._src_table, src_ids, 0, n_tokens)  # (B S, D)
        for layer in self._encoder:
            q, k, v = self._split(layer.qkv(layer.self_frame.enter(x)), n_rows, 3)
            mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1.0)
            merged = mixed.transpose(1, 2).reshape(x.shape)  # (B S, D)
            x = layer.feed_forward(layer.self_frame.leave(x, merged))
        return self._encoder_norm(x).view(n_rows, n_tokens, -1)

    def remember(self, memory: Tensor, src_pad_mask: Tensor) -> PackedCache:
        """Start step-wise decoding of memory (B, S, D)."""
        n_rows, n_tokens, d_model = memory.shape
        flat = memory.flatten(0, 1)  # (B S, D)
        # Both matrices of a reading are smaller than the two they replace up to this length.
        reads = n_rows == 1 and n_tokens * self._n_heads <= d_model and not src_pad_mask.any()
        caches, readings = [], []
        for layer in self._decoder:
            k, v = self._split(layer.cross_kv(flat), n_rows, 2)  # (B, H, S, E) each
            if reads:
                readings.append(_Reading.of(layer, k[0], v[0]))
            by_feature = k.transpose(2, 3).contiguous()  # (B, H, E, S): scores in half the time
            caches.append(LayerCache(by_feature.transpose(2, 3), v.contiguous()))
        return PackedCache(caches, permit_tokens(src_pad_mask), readings)

    def step(self, last_ids: Tensor, cache: PackedCache) -> Tensor:
        """Decode one more token for each of the W hypotheses of each sentence.

        Args:
            last_ids: (B, W) the newest token of each hypothesis; bos at first.
            cache: what was decoded so far; grows by one position.

        Returns:
            hidden (B, W, D).
        """
        (n_rows, width), position = last_ids.shape, cache.n_positions
        x = self._embed(self._tgt_table, last_ids, position, position + 1)  # (B W, D)
        self_bias = _to_bias(cache.advance(width), x.dtype)
        memory_bias = None if cache.readings else _to_bias(cache.memory_mask, x.dtype)
        for number, (layer, past) in enumerate(zip(self._decoder, cache.layers, strict=True)):
            q, k, v = self._split(layer.qkv(layer.self_frame.enter(x)), n_rows, 3)
            x = layer.self_frame.leave(x, _attend(q, *past.append(k, v), self_bias))
            if cache.readings:
                x = cache.readings[number](x, layer.cross_frame)
            else:
                (q,) = self._split(layer.cross_q(layer.cross_frame.enter(x)), n_rows, 1)
                mixed = _attend(q, past.memory_k, past.memory_v, memory_bias)
                x = layer.cross_frame.leave(x, mixed)
            x = layer.feed_forward(x)
        return self._decoder_norm(x).view(n_rows, width, -1)

    def project(self, hidden: Tensor) -> Tensor:
        """Score every piece of the vocabulary: (..., D) to logits (..., V)."""
        return hidden @ self._output

    def _embed(self, table: Tensor, ids: Tensor, start: int, end: int) -> Tensor:
        """Look up ids (B, T) at positions `start` to `end` - 1, or all at `start`: (B T, D)."""
        positions = self._positions.lookup(start, end).to(table.dtype)  # (T or 1, D)
        rows = torch.embedding(table, ids)  # (B, T, D)
        return torch.add(positions, rows, alpha=self._scale).flatten(0, 1)

    def _split(self, packed: Tensor, n_rows: int, n_parts: int) -> tuple[Tensor, ...]:
        """Cut (B T, parts D) into parts and heads: (B, H, T, E) each."""
        shape = (n_rows, len(packed) // n_rows, n_parts, self._n_heads, -1)
        return packed.view(shape).permute(2, 0, 3, 1, 4).unbind()


def _attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    """Mix values by queries that are already scaled.

    Args:
        q: (B, H, Q, E).
        k: (B, H, K, E).
        v: (B, H, K, E).
        bias: (B, 1, Q or 1, K), 0 = may look, -inf = may not; None = all may look at all.

    Returns:
        (B Q, D).
    """
    n_rows, n_heads, n_queries, d_head = q.shape
    queries = q.reshape(n_rows * n_heads, n_queries, d_head)
    scores = torch.bmm(queries, k.transpose(2, 3).flatten(0, 1))  # (B H, Q, K)
    if bias is not None:
        scores.view(n_rows, n_heads, n_queries, -1).add_(bias)
    mixed = torch.bmm(scores.softmax(-1), v.flatten(0, 1))  # (B H, Q, E)
    if n_queries > 1:
        mixed = mixed.view(q.shape).transpose(1, 2)  # (B, Q, H, E)
    return mixed.reshape(n_rows * n_queries, n_heads * d_head)  # (B Q, D)


def _keep_freed_memory() -> None:
    """Let malloc keep what each step frees, since the next step asks for the same again.

    By default glibc hands large blocks back to the system, and a fifth of the time of a beam search
    goes into faulting them in again. It learns from the largest block ever freed, up to 32 MiB; the
    one made here is never written to, so it takes no memory. Source: mallopt(3), M_MMAP_THRESHOLD.
    """
    torch.empty(2**25 - 2**16, dtype=torch.uint8)


def _to_bias(mask: Tensor, dtype: torch.dtype) -> Tensor | None:
    """Turn a permission into summands for scores; None where it forbids nothing."""
    if mask.all():
        return None
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, -torch.inf)


def _transpose(weight: Tensor) -> Tensor:
    """Store (out, in) as (in, out)."""
    return weight.detach().t().contiguous()


def _pack_encoder_layer(layer: EncoderLayer) -> _EncoderLayer:
    return _EncoderLayer(
        qkv=_pack_queries(layer.self_attention, 3),
        self_frame=_pack_frame(layer.frame_self, layer.self_attention.out_proj),
        feed_forward=_pack_feed_forward(layer.feed_forward, layer.frame_ff),
    )


def _pack_decoder_layer(layer: DecoderLayer) -> _DecoderLayer:
    cross = layer.cross_attention
    weight, bias = cross.qkv_proj.weight, cross.qkv_proj.bias
    return _DecoderLayer(
        qkv=_pack_queries(layer.self_attention, 3),
        self_frame=_pack_frame(layer.frame_self, layer.self_attention.out_proj),
        cross_q=_pack_queries(cross, 1),
        cross_kv=_Affine(_transpose(weight[cross.d_model :]), bias[cross.d_model :].detach()),
        cross_frame=_pack_frame(layer.frame_cross, cross.out_proj),
        feed_forward=_pack_feed_forward(layer.feed_forward, layer.frame_ff),
    )


def _pack_queries(attention: MultiHeadAttention, n_parts: int) -> _Affine:
    """Take the first parts of the packed projection; the queries' part gets the scale."""
    d_model = attention.d_model
    weight = attention.qkv_proj.weight[: n_parts * d_model].detach().clone()
    bias = attention.qkv_proj.bias[: n_parts * d_model].detach().clone()
    for part in (weight, bias):
        part[:d_model] /= math.sqrt(d_model // attention.n_heads)
    return _Affine(_transpose(weight), bias)


def _pack_frame(frame: SubLayer, out: nn.Linear) -> _Frame:
    return _Frame(_pack_norm(frame.norm), frame.norm_first, _pack_affine(out))


def _pack_feed_forward(block: FeedForward, frame: SubLayer) -> _FeedForward:
    activate = torch.relu_ if isinstance(block.activate, nn.ReLU) else functional.gelu
    return _FeedForward(_pack_affine(block.widen), activate, _pack_frame(frame, block.narrow))


def _pack_affine(linear: nn.Linear) -> _Affine:
    return _Affine(_transpose(linear.weight), linear.bias.detach())


def _pack_norm(norm: nn.LayerNorm) -> _Norm:
    return _Norm(norm.weight.detach(), norm.bias.detach(), norm.eps)


def _pack_final_norm(norm: nn.Module) -> Callable[[Tensor], Tensor]:
    return _pack_norm(norm) if isinstance(norm, nn.LayerNorm) else norm

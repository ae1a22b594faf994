"""Trace of one layer: the values of its attention, residual connections and feed-forward network.

The model's own modules compute every value, on one sentence pair and in evaluation mode.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor

from hubnmt.model.attention import (
    MultiHeadAttention,
    scaled_dot_product_attention,
    scaled_scores,
)
from hubnmt.model.feed_forward import FeedForward
from hubnmt.model.layers import DecoderLayer, EncoderLayer, SubLayer
from hubnmt.model.masks import causal_mask, padding_mask
from hubnmt.model.transformer import Transformer

AttentionKind = Literal["encoder", "decoder", "cross"]
"""Encoder self-attention, decoder self-attention and cross-attention."""

Project = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]
"""Map the block's input (1, N, D) to queries, keys and values, (1, H, N, E) each."""


class AttentionTrace(NamedTuple):
    """Values of every head of one attention block."""

    queries: Tensor
    """(H, Q, E)."""
    keys: Tensor
    """(H, K, E)."""
    values: Tensor
    """(H, K, E)."""
    scores: Tensor
    """(H, Q, K), scaled, before the mask."""
    attn_mask: Tensor
    """(Q, K) bool, True = attend."""
    weights: Tensor
    """(H, Q, K); rows sum to 1."""
    mixed: Tensor
    """(H, Q, E), the values weighted by the attention."""


class ResidualTrace(NamedTuple):
    """Values of one residual connection, (N, D) each."""

    x: Tensor
    """The layer's input."""
    block_in: Tensor
    """Input of the block: `x`, normalized in pre-norm order."""
    block_out: Tensor
    """Output of the block."""
    out: Tensor
    """`x + block_out`, normalized in post-norm order."""


class LayerTrace(NamedTuple):
    """Values of one layer of the encoder or decoder."""

    attention: AttentionTrace
    attention_residual: ResidualTrace
    """The connection around all heads of that attention."""
    inner: Tensor
    """(N, F), activations of the feed-forward network's inner layer."""
    feed_forward_residual: ResidualTrace


@torch.inference_mode()
def trace_layer(
    model: Transformer, src_ids: Tensor, tgt_in: Tensor, *, kind: AttentionKind, layer: int
) -> LayerTrace:
    """Run the model on one sentence pair and return the values of one layer, in float32 or wider.

    Args:
        model: in evaluation mode.
        src_ids: (1, S), eos last, without padding.
        tgt_in: (1, T), bos first.
        kind: which attention; `decoder` and `cross` are in the same layer.
        layer: counted from 0.
    """
    src_pad_mask = torch.zeros_like(src_ids, dtype=torch.bool)  # (1, S)
    if kind == "encoder":
        x = model.positions(model.src_embedding(src_ids))  # (1, S, D)
        return _trace_encoder(model, x, cast(Tensor, padding_mask(src_pad_mask)), layer)
    memory = model.encode(src_ids, src_pad_mask)  # (1, S, D)
    return _trace_decoder(model, tgt_in, memory, src_pad_mask, kind=kind, layer=layer)


def _trace_encoder(model: Transformer, x: Tensor, attn_mask: Tensor, layer: int) -> LayerTrace:
    for earlier in model.encoder.layers[:layer]:
        x, _ = earlier(x, attn_mask)
    chosen = cast(EncoderLayer, model.encoder.layers[layer])
    attention, residual = _trace_attention(
        chosen.self_attention, chosen.frame_self, x, chosen.self_attention.project_all, attn_mask
    )
    return _join(attention, residual, chosen.frame_ff, residual.out, chosen.feed_forward)


def _trace_decoder(
    model: Transformer,
    tgt_in: Tensor,
    memory: Tensor,
    src_pad_mask: Tensor,
    *,
    kind: AttentionKind,
    layer: int,
) -> LayerTrace:
    x = model.positions(model.tgt_embedding(tgt_in))  # (1, T, D)
    n_tokens = tgt_in.shape[1]
    self_mask = causal_mask(n_tokens, n_tokens, device=tgt_in.device)  # (1, 1, T, T)
    cache = model.precompute_cross_attention(memory, src_pad_mask)
    masks = {"self_mask": self_mask, "memory_mask": cache.memory_mask}
    for earlier, layer_cache in zip(model.decoder.layers[:layer], cache.layers, strict=False):
        x, _, _ = earlier(x, layer_cache, **masks)
    chosen = cast(DecoderLayer, model.decoder.layers[layer])
    own, own_residual = _trace_attention(
        chosen.self_attention, chosen.frame_self, x, chosen.self_attention.project_all, self_mask
    )

    def project_cross(h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        k, v = cache.layers[layer].memory_k, cache.layers[layer].memory_v
        return chosen.cross_attention.project_queries(h), k, v

    cross, cross_residual = _trace_attention(
        chosen.cross_attention,
        chosen.frame_cross,
        own_residual.out,
        project_cross,
        cast(Tensor, cache.memory_mask),
    )
    is_cross = kind == "cross"
    attention, residual = (cross, cross_residual) if is_cross else (own, own_residual)
    return _join(attention, residual, chosen.frame_ff, cross_residual.out, chosen.feed_forward)


def _trace_attention(
    attention: MultiHeadAttention, frame: SubLayer, x: Tensor, project: Project, attn_mask: Tensor
) -> tuple[AttentionTrace, ResidualTrace]:
    """Trace an attention block and its residual connection; batch dimensions remain."""

    def attend(h: Tensor) -> Tensor:
        mixed, _ = attention(*project(h), attn_mask=attn_mask, need_weights=True)
        return mixed  # type: ignore[no-any-return]  # (1, N, D)

    residual = _trace_residual(frame, x, attend)
    q, k, v = project(residual.block_in)  # (1, H, N, E) each
    mixed, weights = scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)
    mask = attn_mask.expand(1, 1, q.shape[2], k.shape[2])  # (1, 1, Q, K)
    found = AttentionTrace(q, k, v, scaled_scores(q, k), mask[:, 0], weights, mixed)
    return found, residual


def _trace_residual(frame: SubLayer, x: Tensor, block: Callable[[Tensor], Tensor]) -> ResidualTrace:
    block_in = block_out = x

    def record(h: Tensor) -> Tensor:
        nonlocal block_in, block_out
        block_in, block_out = h, block(h)
        return block_out

    out = frame(x, record)  # (1, N, D)
    return ResidualTrace(x, block_in, block_out, out)


def _join(
    attention: AttentionTrace,
    residual: ResidualTrace,
    frame: SubLayer,
    x: Tensor,
    feed_forward: FeedForward,
) -> LayerTrace:
    """Trace the feed-forward network behind the attention, and remove the batch dimension."""
    after = _trace_residual(frame, x, feed_forward)
    inner = feed_forward.expand(after.block_in)  # (1, N, F)
    return LayerTrace(
        AttentionTrace(*map(_unbatch, attention)),
        ResidualTrace(*map(_unbatch, residual)),
        _unbatch(inner),
        ResidualTrace(*map(_unbatch, after)),
    )


def _unbatch(x: Tensor) -> Tensor:
    row = x[0].cpu()
    return row.float() if row.dtype in (torch.bfloat16, torch.float16) else row

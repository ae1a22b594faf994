"""Values inside the network, recorded during a forward pass of the model's own code."""

import copy
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from hubnmt.model.attention import scaled_scores
from hubnmt.model.layers import DecoderLayer, EncoderLayer
from hubnmt.model.transformer import Transformer


class Call(NamedTuple):
    """Arguments and result of one call of a module."""

    inputs: tuple[Any, ...]
    options: dict[str, Any]
    output: Any


AttentionKind = Literal["encoder", "decoder", "cross"]
"""Encoder self-attention, decoder self-attention and cross-attention."""


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
    block_out: Tensor
    """Output of the block, whose input is `x`, normalized in pre-norm order."""
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
    # A copy with the same weights: other threads may be running the model.
    tensors = (*model.parameters(), *model.buffers())
    model = copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})
    stack = model.encoder if kind == "encoder" else model.decoder
    chosen: EncoderLayer | DecoderLayer = stack.layers[layer]  # type: ignore[assignment]  # a module
    calls: dict[nn.Module, Call] = {}

    def record(module: nn.Module, *call: Any) -> None:
        calls[module] = Call(*call)

    for module in chosen.modules():
        module.register_forward_hook(record, with_kwargs=True)
    model.attend(src_ids, tgt_in, torch.zeros_like(src_ids, dtype=torch.bool))

    name = "cross" if kind == "cross" else "self"
    attend = calls[chosen.get_submodule(f"{name}_attention")]
    q, k, v = attend.inputs  # (1, H, N, E) each
    out, weights = attend.output  # (1, Q, D), (1, H, Q, K)
    mask = attend.options["attn_mask"].expand(1, 1, q.shape[2], k.shape[2])[:, 0]  # (1, Q, K)
    attention = AttentionTrace(q, k, v, scaled_scores(q, k), mask, weights, weights @ v)
    around = calls[chosen.get_submodule(f"{name}_residual")]
    feed_forward, behind = calls[chosen.feed_forward], calls[chosen.ff_residual]
    inner = chosen.feed_forward.expand(feed_forward.inputs[0])  # (1, N, F)
    return LayerTrace(
        AttentionTrace(*map(_unbatch, attention)),
        ResidualTrace(*map(_unbatch, (around.inputs[0], out, around.output))),
        _unbatch(inner),
        ResidualTrace(*map(_unbatch, (behind.inputs[0], feed_forward.output, behind.output))),
    )


def _unbatch(x: Tensor) -> Tensor:
    row = x[0].cpu()
    return row.float() if row.dtype in (torch.bfloat16, torch.float16) else row

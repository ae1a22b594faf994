"""Shapes and values inside the network, recorded during a forward pass of the model's own code."""

import copy
import dataclasses
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from hubnmt.config import ModelConfig
from hubnmt.model.attention import scaled_scores
from hubnmt.model.layers import DecoderLayer, EncoderLayer
from hubnmt.model.meta import meta_device
from hubnmt.model.transformer import Transformer

Shape = tuple[int, ...]


class Call(NamedTuple):
    """Arguments and result of one call of a module."""

    inputs: tuple[Any, ...]
    options: dict[str, Any]
    output: Any


Calls = dict[nn.Module, list[Call]]


def _record_calls(model: nn.Module) -> Calls:
    calls: Calls = defaultdict(list)

    def record(module: nn.Module, inputs: Any, options: dict[str, Any], output: Any) -> None:
        calls[module].append(Call(inputs, options, output))

    for module in model.modules():
        module.register_forward_hook(record, with_kwargs=True)
    return calls


# --- shapes ---


@dataclasses.dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the forward pass."""

    part: str
    """`encoder`, `decoder` or `output`."""
    layer: int | None
    """Counted from 1; None outside the stack."""
    name: str
    shapes: dict[str, Shape]
    """Shapes of the tensors it computes by name; the last is the input of the next stage."""
    n_parameters: int = 0
    """Trainable parameters, including those of the block's layer norm. Parameters shared by two
    stages count in the first."""


def trace_shapes(config: ModelConfig, *, n_src_tokens: int, n_tgt_tokens: int) -> list[Stage]:
    """Run a model on the `meta` device, which allocates no data, and return its stages in order.

    Args:
        config: the architecture.
        n_src_tokens: S, including eos.
        n_tgt_tokens: T, length of the decoder input: bos and all target tokens but the last.
    """
    with meta_device():
        model = Transformer(config).eval()
        calls = _record_calls(model)
        src_ids = torch.zeros(1, n_src_tokens, dtype=torch.int64)
        tgt_in = torch.zeros(1, n_tgt_tokens, dtype=torch.int64)
        logits, _ = model.attend(src_ids, tgt_in, torch.zeros_like(src_ids, dtype=torch.bool))
    n_projection = 0 if config.tie_output else _count(model.output_proj)
    name = "Score every token of the vocabulary"
    output = Stage("output", None, name, {"logits": tuple(logits.shape)}, n_projection)
    return [*_stages(model, calls, "encoder"), *_stages(model, calls, "decoder"), output]


def _stages(model: Transformer, calls: Calls, part: str) -> Iterator[Stage]:
    is_decoder = part == "decoder"
    stack = model.decoder if is_decoder else model.encoder
    # 1. Embedding, which both sides may share, and positions, which they always do.
    embedding = model.tgt_embedding if is_decoder else model.src_embedding
    is_second = is_decoder and model.tgt_embedding is model.src_embedding
    look_up, place = calls[embedding][is_second], calls[model.positions][is_decoder]
    shapes = {"ids": _shape(look_up.inputs[0]), "vectors": _shape(look_up.output)}
    yield Stage(part, None, "Look up each token", shapes, 0 if is_second else _count(embedding))
    yield Stage(part, None, "Add its position", {"vectors": _shape(place.output)})
    # 2. Layers.
    for number, layer in enumerate(stack.layers, 1):
        name = "Self-attention, past only" if is_decoder else "Self-attention"
        yield _attention(part, number, name, calls, layer, "self")
        if is_decoder:
            yield _attention(part, number, "Cross-attention to memory", calls, layer, "cross")
        block = layer.get_submodule("feed_forward")
        inner = calls[block.get_submodule("linear1")][0].output
        shapes = {"inner": _shape(inner), "vectors": _shape(calls[block][0].output)}
        n_parameters = _count(block) + _count(layer.get_submodule("ff_residual"))
        yield Stage(part, number, "Feed-forward", shapes, n_parameters)
    # 3. Final norm.
    norm = stack.final_norm
    title = "Layer norm" if _count(norm) else "Nothing more: each layer ends with its norm"
    shapes = {"hidden" if is_decoder else "memory": _shape(calls[norm][0].output)}
    yield Stage(part, None, title, shapes, _count(norm))


def _attention(
    part: str, number: int, name: str, calls: Calls, layer: nn.Module, kind: str
) -> Stage:
    attention = layer.get_submodule(f"{kind}_attention")
    call = calls[attention][0]
    queries, keys, values = map(_shape, call.inputs)
    mixed, weights = map(_shape, call.output)
    shapes = {"queries": queries, "keys": keys, "values": values, "weights": weights}
    n_parameters = _count(attention) + _count(layer.get_submodule(f"{kind}_residual"))
    return Stage(part, number, name, {**shapes, "vectors": mixed}, n_parameters)


def _shape(tensor: Tensor) -> Shape:
    return tuple(tensor.shape)


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


# --- values ---

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
    calls = _record_calls(chosen)
    model.attend(src_ids, tgt_in, torch.zeros_like(src_ids, dtype=torch.bool))

    name = "cross" if kind == "cross" else "self"
    attend = calls[chosen.get_submodule(f"{name}_attention")][0]
    q, k, v = attend.inputs  # (1, H, N, E) each
    out, weights = attend.output  # (1, Q, D), (1, H, Q, K)
    mask = attend.options["attn_mask"].expand(1, 1, q.shape[2], k.shape[2])[:, 0]  # (1, Q, K)
    attention = AttentionTrace(q, k, v, scaled_scores(q, k), mask, weights, weights @ v)
    around = calls[chosen.get_submodule(f"{name}_residual")][0]
    feed_forward, behind = calls[chosen.feed_forward][0], calls[chosen.ff_residual][0]
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

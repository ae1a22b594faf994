"""Trace of one forward pass: every stage with the shapes of its tensors.

The model's own code runs on PyTorch's `meta` device, which computes shapes without allocating data.
"""

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from hubnmt.config import ModelConfig
from hubnmt.model import Transformer
from hubnmt.model.embedding import sinusoidal_positions

Shape = tuple[int, ...]


class NamedShape(NamedTuple):
    """Name and shape of a tensor."""

    name: str
    shape: Shape


@dataclasses.dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the forward pass."""

    part: str
    """`encoder`, `decoder` or `output`."""
    layer: int | None
    """Counted from 1; None outside the stack."""
    name: str
    tensors: tuple[NamedShape, ...]
    """Tensors it computes, in order; the last is the input of the next stage."""
    n_parameters: int
    """Trainable parameters, including those of the block's layer norm. Parameters shared by two
    stages count in the first."""


class _Calls:
    """Records the input and output shapes of every call of every module."""

    def __init__(self, model: nn.Module) -> None:
        self._shapes: dict[nn.Module, list[tuple[list[Shape], list[Shape]]]] = {}
        for module in model.modules():
            module.register_forward_hook(self._record)

    def _record(self, module: nn.Module, inputs: tuple[object, ...], outputs: object) -> None:
        out = outputs if isinstance(outputs, tuple) else (outputs,)
        self._shapes.setdefault(module, []).append((_shapes(inputs), _shapes(out)))

    def of(self, module: nn.Module, call: int = 0) -> tuple[list[Shape], list[Shape]]:
        return self._shapes[module][call]


def _shapes(values: tuple[object, ...]) -> list[Shape]:
    return [tuple(value.shape) for value in values if isinstance(value, Tensor)]


def trace_shapes(config: ModelConfig, *, n_src_tokens: int, n_tgt_tokens: int) -> list[Stage]:
    """Trace one forward pass and return its stages in order.

    Args:
        config: the architecture.
        n_src_tokens: S, including eos.
        n_tgt_tokens: T, length of the decoder input: bos and all target tokens but the last.
    """
    with torch.device("meta"):
        model = Transformer(config).eval()
        calls = _Calls(model)
        src_ids = torch.zeros(1, n_src_tokens, dtype=torch.int64)
        tgt_in = torch.zeros(1, n_tgt_tokens, dtype=torch.int64)
        logits, _ = model.attend(src_ids, tgt_in, torch.zeros(1, n_src_tokens, dtype=torch.bool))
    output = Stage(
        "output",
        None,
        "Score every token of the vocabulary",
        (NamedShape("logits", tuple(logits.shape)),),
        0 if config.tie_output else _count(model.output_proj),
    )
    return [*_encoder(model, calls), *_decoder(model, calls), output]


def _encoder(model: Transformer, calls: _Calls) -> Iterator[Stage]:
    yield from _embedding(model, calls, "encoder")
    for number, layer in enumerate(model.encoder.layers, 1):
        yield _attention("encoder", number, "Self-attention", calls, layer, "self")
        yield _feed_forward("encoder", number, calls, layer)
    yield _final_norm("encoder", "memory", calls, model.encoder)


def _decoder(model: Transformer, calls: _Calls) -> Iterator[Stage]:
    yield from _embedding(model, calls, "decoder")
    for number, layer in enumerate(model.decoder.layers, 1):
        yield _attention("decoder", number, "Self-attention, past only", calls, layer, "self")
        yield _attention("decoder", number, "Cross-attention to memory", calls, layer, "cross")
        yield _feed_forward("decoder", number, calls, layer)
    yield _final_norm("decoder", "hidden", calls, model.decoder)


def _embedding(model: Transformer, calls: _Calls, part: str) -> Iterator[Stage]:
    second = int(part == "decoder")
    is_shared = model.tgt_embedding is model.src_embedding
    module = model.tgt_embedding if second else model.src_embedding
    (ids,), (vectors,) = calls.of(module, second if is_shared else 0)
    tensors = (NamedShape("ids", ids), NamedShape("vectors", vectors))
    n_parameters = 0 if second and is_shared else _count(module)
    yield Stage(part, None, "Look up each token", tensors, n_parameters)
    _, (placed,) = calls.of(model.positions, second)
    yield Stage(part, None, "Add its position", (NamedShape("vectors", placed),), 0)


def _attention(
    part: str, number: int, name: str, calls: _Calls, layer: nn.Module, kind: str
) -> Stage:
    attention = layer.get_submodule(f"{kind}_attention")
    (queries, keys, values), (mixed, weights) = calls.of(attention)
    tensors = (
        NamedShape("queries", queries),
        NamedShape("keys", keys),
        NamedShape("values", values),
        NamedShape("weights", weights),
        NamedShape("vectors", mixed),
    )
    n_parameters = _count(attention) + _count(layer.get_submodule(f"frame_{kind}"))
    return Stage(part, number, name, tensors, n_parameters)


def _feed_forward(part: str, number: int, calls: _Calls, layer: nn.Module) -> Stage:
    block = layer.get_submodule("feed_forward")
    _, (wide,) = calls.of(block.get_submodule("widen"))
    _, (narrow,) = calls.of(block)
    tensors = (NamedShape("widened", wide), NamedShape("vectors", narrow))
    n_parameters = _count(block) + _count(layer.get_submodule("frame_ff"))
    return Stage(part, number, "Feed-forward", tensors, n_parameters)


def _final_norm(part: str, name: str, calls: _Calls, stack: nn.Module) -> Stage:
    norm = stack.get_submodule("final_norm")
    _, (shape,) = calls.of(norm)
    title = "Layer norm" if _count(norm) else "Nothing more: each layer ends with its norm"
    return Stage(part, None, title, (NamedShape(name, shape),), _count(norm))


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def position_pattern(n_positions: int, d_model: int) -> list[list[float]]:
    """Return the positional encodings of the first positions, D numbers each."""
    rows: list[list[float]] = sinusoidal_positions(0, n_positions, d_model).tolist()
    return rows

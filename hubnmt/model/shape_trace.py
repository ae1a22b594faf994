"""The network opened up: every stage of one pass, with the shapes of its tensors.

Takes an architecture and two lengths, gives stages in the order in which they run. The shapes come
from running the network's own code on the `meta` device of PyTorch, which computes shapes without
numbers, so they need no memory and cannot disagree with the code. Must not know text.
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
    """A tensor without its numbers."""

    name: str
    shape: Shape


@dataclasses.dataclass(frozen=True, slots=True)
class Stage:
    """One step of the pass."""

    part: str
    """`encoder`, `decoder` or `output`."""
    layer: int | None
    """Counted from 1; None outside the stack."""
    name: str
    tensors: tuple[NamedShape, ...]
    """What it makes, in order; its last is what the next stage reads."""
    n_parameters: int
    """Trainable numbers, those of the layer norm around the block included. What two stages share
    counts in the first."""


class _Calls:
    """The shapes that went into and came out of every module, call by call."""

    def __init__(self, model: nn.Module) -> None:
        self._seen: dict[nn.Module, list[tuple[list[Shape], list[Shape]]]] = {}
        for module in model.modules():
            module.register_forward_hook(self._record)

    def _record(self, module: nn.Module, given: tuple[object, ...], made: object) -> None:
        out = made if isinstance(made, tuple) else (made,)
        self._seen.setdefault(module, []).append((_shapes(given), _shapes(out)))

    def of(self, module: nn.Module, call: int = 0) -> tuple[list[Shape], list[Shape]]:
        return self._seen[module][call]


def _shapes(values: tuple[object, ...]) -> list[Shape]:
    return [tuple(value.shape) for value in values if isinstance(value, Tensor)]


def dissect(config: ModelConfig, *, n_src_tokens: int, n_tgt_tokens: int) -> list[Stage]:
    """Run one pass without numbers and list its stages.

    Args:
        config: the architecture.
        n_src_tokens: S, eos counted.
        n_tgt_tokens: T, what the decoder reads: bos and all but the last.
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
        "Score every piece of the vocabulary",
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
    yield Stage(part, None, "Look up each piece", tensors, n_parameters)
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
    """Return what is added to the vectors of the first positions: a row of D numbers for each."""
    rows: list[list[float]] = sinusoidal_positions(0, n_positions, d_model).tolist()
    return rows

"""Ablation of attention heads, by zeroing their columns of the output projection.

Only the changed matrices are copied; all other weights are shared.
Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section 2.3,
https://arxiv.org/abs/1905.10650
"""

import copy
from collections.abc import Collection
from typing import Any, NamedTuple

import torch
from torch import nn

from hubnmt.checkpoint.folder import StoredModel
from hubnmt.errors import InputError
from hubnmt.inference.dtypes import DTYPES
from hubnmt.model import Transformer
from hubnmt.model.attention import MultiHeadAttention
from hubnmt.translator import Translator

PARTS = ("encoder", "decoder", "cross")
"""Encoder self-attention, decoder self-attention and cross-attention."""


class Head(NamedTuple):
    """One attention head; layer and head are counted from 0."""

    part: str
    """One of `PARTS`."""
    layer: int
    head: int


def without_heads(translator: Translator, heads: Collection[Head]) -> Translator:
    """Return a translator with heads ablated, which uses the PyTorch engine.

    Raises:
        InputError: if the model has no such head.
    """
    model = translator.model
    dtype = model.output_proj.weight.dtype
    stored = StoredModel(
        model=ablate_heads(model, heads),
        tokenizers=translator.tokenizers,
        decoding=translator.decoding,
        card=translator.card,
    )
    name = next(name for name, kind in DTYPES.items() if kind == dtype)
    return Translator(stored, device=str(translator.device), dtype=name)


def ablate_heads(model: Transformer, heads: Collection[Head]) -> Transformer:
    """Return a copy of a model in which the output of these heads is zero.

    Raises:
        InputError: if the model has no such head.
    """
    changed = {id(_find_attention(model, head).out_proj.weight) for head in heads}
    shared: dict[int, Any] = {
        id(weight): weight for weight in model.parameters() if id(weight) not in changed
    }
    ablated = copy.deepcopy(model, shared)
    with torch.no_grad():
        for head in heads:
            attention = _find_attention(ablated, head)
            weight = attention.out_proj.weight.view(attention.d_model, attention.n_heads, -1)
            weight[:, head.head] = 0  # (D, E)
    return ablated


def _find_attention(model: Transformer, head: Head) -> MultiHeadAttention:
    layers: nn.ModuleList = (model.encoder if head.part == "encoder" else model.decoder).layers
    exists = head.part in PARTS and 0 <= head.layer < len(layers)
    if not exists or not 0 <= head.head < model.config.n_heads:
        raise InputError(
            f"there is no {head.part!r} head {head.head + 1} in layer {head.layer + 1}; there are "
            f"{' and '.join(PARTS)}, with {model.config.n_heads} heads a layer"
        )
    name = "cross_attention" if head.part == "cross" else "self_attention"
    attention: MultiHeadAttention = getattr(layers[head.layer], name)
    return attention

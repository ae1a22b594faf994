"""Heads switched off, to see what they are good for.

Takes a `Translator` and heads, gives a translator whose model hears nothing from them: the columns
of the output projection that read a head are zero. Only those matrices are copied, everything else
is shared. Must not know Gradio. Source: Michel et al. 2019, "Are Sixteen Heads Really Better than
One?", section 2.3.
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
"""Self-attention of the encoder and of the decoder, and the decoder's look at the source."""


class Head(NamedTuple):
    """One head; layer and head are counted from 0."""

    part: str
    """One of `PARTS`."""
    layer: int
    head: int


def without_heads(translator: Translator, heads: Collection[Head]) -> Translator:
    """Give the same translator with heads switched off; PyTorch searches.

    Raises:
        InputError: if there is no such head.
    """
    model = translator.model
    dtype = model.output_proj.weight.dtype
    stored = StoredModel(
        model=ablate_heads(model, heads),
        src_tokenizer=translator.src_tokenizer,
        tgt_tokenizer=translator.tgt_tokenizer,
        decoding=translator.decoding,
        card=translator.card,
    )
    name = next(name for name, each in DTYPES.items() if each == dtype)
    return Translator(stored, device=str(translator.device), dtype=name)


def ablate_heads(model: Transformer, heads: Collection[Head]) -> Transformer:
    """Copy a model in which nothing that these heads mix goes any further.

    Raises:
        InputError: if there is no such head.
    """
    changed = {id(_find_attention(model, head).out_proj.weight) for head in heads}
    shared: dict[int, Any] = {
        id(each): each for each in model.parameters() if id(each) not in changed
    }
    silent = copy.deepcopy(model, shared)
    with torch.no_grad():
        for head in heads:
            attention = _find_attention(silent, head)
            weight = attention.out_proj.weight.view(attention.d_model, attention.n_heads, -1)
            weight[:, head.head] = 0  # (D, E)
    return silent


def _find_attention(model: Transformer, head: Head) -> MultiHeadAttention:
    layers: nn.ModuleList = (model.encoder if head.part == "encoder" else model.decoder).layers
    is_there = head.part in PARTS and 0 <= head.layer < len(layers)
    if not is_there or not 0 <= head.head < model.config.n_heads:
        raise InputError(
            f"there is no {head.part!r} head {head.head + 1} in layer {head.layer + 1}; there are "
            f"{' and '.join(PARTS)}, with {model.config.n_heads} heads a layer"
        )
    name = "cross_attention" if head.part == "cross" else "self_attention"
    attention: MultiHeadAttention = getattr(layers[head.layer], name)
    return attention

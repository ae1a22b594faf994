"""Values of one attention head and its layer for one sentence pair, packed for the browser."""

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hubnmt.decoding.search import NOT_FINITE
from hubnmt.errors import InputError, ModelFolderError
from hubnmt.model.trace import AttentionKind, LayerTrace, trace_layer
from hubnmt.text.tokenizer import Tokenizer
from hubnmt.translator import Translator
from hubnmt.ui.services.subject import Subject, is_index
from hubnmt.ui.services.turns import TURNS

MAX_SHOWN_TOKENS = 24
"""Tokens shown on each side: more rows do not fit a screen, and the data grows with them."""

FULL_SCALE = 32_767
"""Encoded value of the largest magnitude of a tensor."""


def layer_values(translator: Translator, subject: Subject, asked: Any = None) -> dict[str, Any]:
    """Compute the values of one head and its layer for the first tokens of a sentence pair.

    `asked` has `kind`, `layer` and `head`; None for the alignment head, or the first one.
    """
    config = translator.config
    n_decoder = config.n_decoder_layers
    layers = {"encoder": config.n_encoder_layers, "decoder": n_decoder, "cross": n_decoder}
    if asked is None:
        layer, head = config.alignment_head or (0, 0)
        asked = {"kind": "cross", "layer": layer, "head": head}
    kind, layer, head = _read_choice(asked, layers, config.n_heads)
    pair = subject.pair(translator)
    tokenizers = translator.tokenizers.with_spans(pair.protected)
    src = [*pair.src_ids, tokenizers.src.eos_id]  # S
    tgt = [tokenizers.tgt.bos_id, *pair.tgt_ids]  # T
    src_ids, tgt_in = (torch.tensor([ids], device=translator.device) for ids in (src, tgt))
    with TURNS.turn():
        trace = trace_layer(translator.model, src_ids, tgt_in, kind=kind, layer=layer)
    src_side = _side(src, tokenizers.src, is_src=True)
    tgt_side = _side(tgt, tokenizers.tgt, is_src=False)
    return {
        "queries": src_side if kind == "encoder" else tgt_side,
        "keys": tgt_side if kind == "decoder" else src_side,
        "choice": {"kind": kind, "layer": layer, "head": head},
        "layers": layers,
        "heads": config.n_heads,
        "norm": config.norm_order,
        "activation": config.activation,
        "tensors": {name: pack(values) for name, values in _tensors(trace, head).items()},
    }


def _read_choice(
    asked: Any, layers: Mapping[str, int], n_heads: int
) -> tuple[AttentionKind, int, int]:
    asked = asked if isinstance(asked, dict) else {}
    kind, layer, head = (asked.get(name) for name in ("kind", "layer", "head"))
    if not is_index(layer, layers.get(str(kind), 0)) or not is_index(head, n_heads):
        raise InputError("this model has no such attention head; select another one")
    return kind, layer, head


def _side(ids: list[int], tokenizer: Tokenizer, *, is_src: bool) -> dict[str, Any]:
    tokens = tokenizer.readable(ids[:MAX_SHOWN_TOKENS])
    return {"tokens": tokens, "n_tokens": len(ids), "is_src": is_src}


def _tensors(trace: LayerTrace, head: int) -> dict[str, Tensor]:
    """Return the values of one head and of its layer, (rows, columns) each."""
    attention, around = trace.attention, trace.attention_residual
    behind = trace.feed_forward_residual
    shown = slice(MAX_SHOWN_TOKENS)
    by_row = {
        "keys": attention.keys[head],
        "values": attention.values[head],
        "queries": attention.queries[head],
        "mixed": attention.mixed[head],
        "attention_in": around.x,
        "attention_out": around.block_out,
        "attention_sum": around.out,
        "inner": trace.inner,
        "feed_forward_in": behind.x,
        "feed_forward_out": behind.block_out,
        "feed_forward_sum": behind.out,
    }
    maps = {
        "scores": attention.scores[head],
        "mask": attention.attn_mask.to(attention.scores),
        "weights": attention.weights[head],
    }
    rows = {name: values[shown] for name, values in by_row.items()}
    return rows | {name: values[shown, shown] for name, values in maps.items()}


def pack(values: Tensor) -> dict[str, Any]:
    """Encode (rows, columns) as base64 of little-endian 16-bit integers with a common scale.

    `unpackTensor` of `assets/shared.js` reads it.
    """
    if not values.isfinite().all():
        raise ModelFolderError(NOT_FINITE)
    numbers = values.double().numpy()
    scale = float(np.abs(numbers).max(initial=0)) or 1.0
    packed = np.rint(numbers / scale * FULL_SCALE).astype("<i2")
    return {
        "rows": numbers.shape[0],
        "columns": numbers.shape[1],
        "scale": scale,
        "values": base64.b64encode(packed.tobytes()).decode("ascii"),
    }

"""Values of one attention head and its layer for one sentence pair, packed for the browser."""

import base64
import typing
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hubnmt.attention.replay import readable_pieces
from hubnmt.config import ModelConfig
from hubnmt.decoding import NOT_FINITE
from hubnmt.errors import InputError, ModelFolderError
from hubnmt.model.trace import AttentionKind, LayerTrace, trace_layer
from hubnmt.text.tokenizer import Tokenizer
from hubnmt.translator import Translator
from hubnmt.ui.services.subject import Subject, read_index
from hubnmt.ui.services.turns import model_turn

MAX_SHOWN_TOKENS = 24
"""Tokens shown on each side: more rows do not fit a screen, and the data grows with them."""

FULL_SCALE = 32_767
"""Encoded value of the largest magnitude of a tensor."""

KINDS: tuple[AttentionKind, ...] = typing.get_args(AttentionKind)


class HeadChoice(NamedTuple):
    """The attention head that is shown; layer and head are counted from 0."""

    kind: AttentionKind
    layer: int
    head: int


def layer_values(translator: Translator, subject: Subject, asked: Any = None) -> dict[str, Any]:
    """Compute the values of one head and its layer for the first tokens of a sentence pair.

    `asked` has `kind`, `layer` and `head`; None for the alignment head, or the first one.

    Raises:
        InputError: if the model has no such head.
        ModelFolderError: if the model's numbers overflow.
    """
    config = translator.config
    choice = _read_choice(asked, config)
    pair = subject.pair(translator)
    tokenizers = translator.tokenizers.with_spans(pair.protected)
    src = [*pair.src_ids, tokenizers.src.eos_id]  # S
    tgt = [tokenizers.tgt.bos_id, *pair.tgt_ids]  # T
    src_ids, tgt_in = (torch.tensor([ids], device=translator.device) for ids in (src, tgt))
    with model_turn():
        trace = trace_layer(translator.model, src_ids, tgt_in, kind=choice.kind, layer=choice.layer)
    src_side = _side(src, tokenizers.src, is_src=True)
    tgt_side = _side(tgt, tokenizers.tgt, is_src=False)
    return {
        "queries": src_side if choice.kind == "encoder" else tgt_side,
        "keys": tgt_side if choice.kind == "decoder" else src_side,
        "choice": choice._asdict(),
        "layers": _count_layers(config),
        "heads": config.n_heads,
        "norm": config.norm_order,
        "activation": config.activation,
        "tensors": {name: _pack(values) for name, values in _tensors(trace, choice.head).items()},
    }


def _count_layers(config: ModelConfig) -> dict[AttentionKind, int]:
    n_decoder = config.n_decoder_layers
    return {"encoder": config.n_encoder_layers, "decoder": n_decoder, "cross": n_decoder}


def _read_choice(asked: Any, config: ModelConfig) -> HeadChoice:
    if asked is None:
        return HeadChoice("cross", *(config.alignment_head or (0, 0)))
    try:
        choice = HeadChoice(asked["kind"], read_index(asked["layer"]), read_index(asked["head"]))
        n_layers = _count_layers(config)[choice.kind]
        is_known = choice.layer < n_layers and choice.head < config.n_heads
    except (KeyError, TypeError, ValueError):
        is_known = False
    if not is_known:
        raise InputError("this model has no such attention head; select another one")
    return choice


def _side(ids: list[int], tokenizer: Tokenizer, *, is_src: bool) -> dict[str, Any]:
    tokens = readable_pieces(ids[:MAX_SHOWN_TOKENS], tokenizer)
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


def _pack(values: Tensor) -> dict[str, Any]:
    """Encode (rows, columns) as base64 of little-endian 16-bit integers with a common scale."""
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

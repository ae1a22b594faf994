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
from hubnmt.pipeline.align_sentences import Pair
from hubnmt.text.tokenizer import Tokenizers
from hubnmt.translator import Translator
from hubnmt.ui.services.subject import Subject, read_index
from hubnmt.ui.services.turns import model_turn

MAX_SHOWN_TOKENS = 24
"""Tokens shown on each side: more rows do not fit a screen, and the data grows with them."""

FULL_SCALE = 32_767
"""Encoded value of the largest magnitude of a tensor."""

KINDS: tuple[AttentionKind, ...] = typing.get_args(AttentionKind)


class Choice(NamedTuple):
    """The attention head that is shown; layer and head are counted from 0."""

    kind: AttentionKind = "cross"
    layer: int = 0
    head: int = 0

    @classmethod
    def read(cls, value: Any, config: ModelConfig) -> "Choice":
        """Parse the page's choice; None selects the alignment head, or the first one.

        Raises:
            InputError: if the model has no such head.
        """
        if value is None:
            return cls("cross", *(config.alignment_head or (0, 0)))
        try:
            choice = cls(value["kind"], read_index(value["layer"]), read_index(value["head"]))
            is_known = choice.layer < n_layers(config, choice.kind) and choice.head < config.n_heads
        except (KeyError, TypeError, ValueError):
            is_known = False
        if not is_known:
            raise InputError("this model has no such attention head; select another one")
        return choice


def n_layers(config: ModelConfig, kind: AttentionKind) -> int:
    """Return the number of layers with this kind of attention.

    Raises:
        KeyError: if there is no such kind.
    """
    n_decoder = config.n_decoder_layers
    return {"encoder": config.n_encoder_layers, "decoder": n_decoder, "cross": n_decoder}[kind]


def layer_values(translator: Translator, subject: Subject, choice: Choice) -> dict[str, Any]:
    """Compute the values of one head and its layer for the first tokens of a sentence pair.

    Raises:
        ModelFolderError: if the model's numbers overflow.
    """
    pair, config = subject.pair(translator), translator.config
    tokenizers = translator.tokenizers.with_spans(pair.protected)
    with model_turn():
        trace = _trace(translator, pair, choice)
    src = [*pair.src_ids, tokenizers.src.eos_id]
    tgt = [tokenizers.tgt.bos_id, *pair.tgt_ids]
    queries = src if choice.kind == "encoder" else tgt
    keys = tgt if choice.kind == "decoder" else src
    sides = {
        "queries": _side(queries, tokenizers, is_src=choice.kind == "encoder"),
        "keys": _side(keys, tokenizers, is_src=choice.kind != "decoder"),
    }
    return {
        **sides,
        "choice": choice._asdict(),
        "layers": {kind: n_layers(config, kind) for kind in KINDS},
        "heads": config.n_heads,
        "norm": config.norm_order,
        "activation": config.activation,
        "tensors": {name: _pack(values) for name, values in _tensors(trace, choice.head).items()},
    }


def _trace(translator: Translator, pair: Pair, choice: Choice) -> LayerTrace:
    device, tokenizers = translator.device, translator.tokenizers
    src_ids = torch.tensor([[*pair.src_ids, tokenizers.src.eos_id]], device=device)  # (1, S)
    tgt_in = torch.tensor([[tokenizers.tgt.bos_id, *pair.tgt_ids]], device=device)  # (1, T)
    return trace_layer(translator.model, src_ids, tgt_in, kind=choice.kind, layer=choice.layer)


def _side(ids: list[int], tokenizers: Tokenizers, *, is_src: bool) -> dict[str, Any]:
    tokenizer = tokenizers.src if is_src else tokenizers.tgt
    tokens = readable_pieces(ids[:MAX_SHOWN_TOKENS], tokenizer)
    return {"tokens": tokens, "n_tokens": len(ids), "is_src": is_src}


def _tensors(trace: LayerTrace, head: int) -> dict[str, Tensor]:
    """Return the values of one head and of its layer, (rows, columns) each."""
    attention, around = trace.attention, trace.attention_residual
    behind = trace.feed_forward_residual
    shown = slice(MAX_SHOWN_TOKENS)
    by_key = {"keys": attention.keys[head], "values": attention.values[head]}
    by_query = {
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
    rows = {name: values[shown] for name, values in (by_key | by_query).items()}
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

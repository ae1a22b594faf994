"""Export of a model to ONNX; needs the extra `hubnmt[onnx]`.

`encoder.onnx` computes the keys and values of the cross-attention from the source, `decoder.onnx`
the next token of each sentence from them and from the cache of the previous steps.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch

from hubnmt.checkpoint.files import replace_folder, write_json
from hubnmt.checkpoint.folder import StoredModel
from hubnmt.inference.exported_folder import add_use
from hubnmt.inference.onnx_graph import (
    FLOAT,
    Graph,
    add_residual,
    attend,
    embed,
    feed_forward,
    norm,
    padding_bias,
    pre_norm,
    project,
    split_heads,
)
from hubnmt.model import Transformer
from hubnmt.model.attention import MultiHeadAttention
from hubnmt.model.layers import DecoderLayer, EncoderLayer

USE = """
import numpy, onnxruntime, tokenizers

src, tgt = map(tokenizers.Tokenizer.from_file, {names})
encoder, decoder = map(onnxruntime.InferenceSession, ["encoder.onnx", "decoder.onnx"])
src_ids = numpy.array([src.encode({text}).ids + [src.token_to_id("<eos>")]])
state = {{"src_pad_mask": numpy.zeros(src_ids.shape, bool)}}
state["memory_k"], state["memory_v"] = encoder.run(None, {{"src_ids": src_ids, **state}})
state["past_k"] = state["past_v"] = state["memory_k"][:, :, :, :0]
ids, last_id = [], tgt.token_to_id("<bos>")
for _ in range(2 * src_ids.size + 8):
    step = {{"last_ids": numpy.array([last_id]), **state}}
    log_probs, state["past_k"], state["past_v"] = decoder.run(None, step)
    last_id = int(log_probs.argmax())
    if last_id == tgt.token_to_id("<eos>"):
        break
    ids.append(last_id)
print(tgt.decode(ids))
"""

INTERFACE = """
The code searches greedily. Inputs and outputs, with B sentences of S source tokens, T tokens
generated before, V tokens in the target vocabulary, L decoder layers and H heads of E features:

| file | inputs | outputs |
|---|---|---|
| `encoder.onnx` | `src_ids` (B, S) int64, each row ends with `<eos>` and padding; `src_pad_mask` \
(B, S) bool, true at padding | `memory_k`, `memory_v` (L, B, H, S, E) float32 |
| `decoder.onnx` | `last_ids` (B) int64, `<bos>` at first; `src_pad_mask`, `memory_k`, `memory_v`; \
`past_k`, `past_v` (L, B, H, T, E), T = 0 at first | `log_probs` (B, V) of the next token, natural \
logarithms; `next_k`, `next_v` (L, B, H, T + 1, E) |

A beam search repeats the rows of a sentence, and orders those of `next_k` and `next_v` by its
hypotheses. `config.json` has the architecture, the languages and the ids of the special tokens.
"""


def export_onnx(stored: StoredModel, folder: str | os.PathLike[str]) -> None:
    """Write a folder for ONNX Runtime; an existing folder is replaced atomically.

    With its tokenizers and a README it works without hubnmt. Weights are float32.

    Args:
        stored: the model.
        folder: output folder.

    Raises:
        ConfigError: if the package `onnx` is not installed, or the model is too large for a file.
    """
    tokenizer = stored.tokenizers.tgt
    special = {name: getattr(tokenizer, name) for name in ("pad_id", "bos_id", "eos_id")}
    files = {
        "encoder.onnx": build_encoder(stored.model),
        "decoder.onnx": build_decoder(stored.model, never=(tokenizer.pad_id, tokenizer.bos_id)),
    }
    with replace_folder(Path(folder)) as draft:
        for name, model in files.items():
            (draft / name).write_bytes(model.SerializeToString())
        write_json(draft / "config.json", {**stored.model.config.to_dict(), **special})
        add_use(
            draft,
            stored,
            packages="onnxruntime tokenizers",
            write_code=lambda text, names: USE.format(text=text, names=names),
            interface=INTERFACE,
        )


def build_encoder(model: Transformer) -> Any:
    """Build the graph from source ids to the keys and values of all cross-attentions."""
    graph = Graph(model)
    bias = padding_bias(graph, "src_pad_mask")  # (B, 1, 1, S)
    n_tokens = graph.add("Squeeze", _length(graph, "src_ids", axis=1))
    positions = graph.add("Range", graph.constant(0.0), n_tokens, graph.constant(1.0))  # (S,)
    x = embed(graph, model.src_embedding.weight, "src_ids", positions)  # (B, S, D)
    for layer in model.encoder.layers:
        x = _encoder_layer(graph, x, cast(EncoderLayer, layer), bias)
    memory = norm(graph, x, model.encoder.final_norm)  # (B, S, D)
    caches = [_memory_cache(graph, memory, cast(DecoderLayer, d)) for d in model.decoder.layers]
    _stack(graph, caches, ("memory_k", "memory_v"))
    cache = _cache_shape(model, "S")
    return graph.to_model(
        {"src_ids": ("INT64", ["B", "S"]), "src_pad_mask": ("BOOL", ["B", "S"])},
        {"memory_k": cache, "memory_v": cache},
    )


def build_decoder(model: Transformer, *, never: Sequence[int]) -> Any:
    """Build the graph from the last ids and the cache to the log-probabilities of the next ids.

    Args:
        model: in eval mode.
        never: ids that no translation contains; see `hubnmt.inference.model_step`.
    """
    graph = Graph(model)
    bias = padding_bias(graph, "src_pad_mask")  # (B, 1, 1, S)
    last_ids = graph.add("Unsqueeze", "last_ids", graph.constant([1]))  # (B, 1)
    position = _length(graph, "past_k", axis=3)  # (1,)
    x = embed(graph, model.tgt_embedding.weight, last_ids, position)  # (B, 1, D)
    caches = []
    for number, layer in enumerate(model.decoder.layers):
        past, memory = (
            [_layer(graph, f"{kind}_{part}", number) for part in "kv"]
            for kind in ("past", "memory")
        )
        x, cache = _decoder_layer(graph, x, cast(DecoderLayer, layer), past, memory, bias)
        caches.append(cache)
    _stack(graph, caches, ("next_k", "next_v"))
    hidden = norm(graph, x, model.decoder.final_norm)  # (B, 1, D)
    hidden = graph.add("Squeeze", hidden, graph.constant([1]))  # (B, D)
    logits = graph.add("Gemm", hidden, graph.weight(model.output_proj.weight), transB=1)  # (B, V)
    forbidden = torch.zeros(model.config.tgt_vocab_size)
    forbidden[list(never)] = -torch.inf
    log_probs = graph.add("LogSoftmax", logits, axis=-1)
    graph.add("Add", log_probs, graph.constant(forbidden), output="log_probs")
    memory_cache, past_cache = _cache_shape(model, "S"), _cache_shape(model, "T")
    next_cache = _cache_shape(model, "T + 1")
    return graph.to_model(
        {
            "last_ids": ("INT64", ["B"]),
            "src_pad_mask": ("BOOL", ["B", "S"]),
            "memory_k": memory_cache,
            "memory_v": memory_cache,
            "past_k": past_cache,
            "past_v": past_cache,
        },
        {
            "log_probs": ("FLOAT", ["B", model.config.tgt_vocab_size]),
            "next_k": next_cache,
            "next_v": next_cache,
        },
    )


def _encoder_layer(graph: Graph, x: str, layer: EncoderLayer, bias: str) -> str:
    """Apply an encoder layer: (B, S, D) to (B, S, D)."""
    attention = layer.self_attention
    packed = _project_parts(graph, pre_norm(graph, x, layer.frame_self), attention, 0, 3)
    mixed = attend(graph, split_heads(graph, packed, attention, 3), attention, bias)
    x = add_residual(graph, x, mixed, layer.frame_self)
    inner = feed_forward(graph, pre_norm(graph, x, layer.frame_ff), layer.feed_forward)
    return add_residual(graph, x, inner, layer.frame_ff)


def _decoder_layer(
    graph: Graph,
    x: str,
    layer: DecoderLayer,
    past: Sequence[str],
    memory: Sequence[str],
    bias: str,
) -> tuple[str, list[str]]:
    """Apply a decoder layer to one position (B, 1, D).

    Args:
        graph: the graph.
        x: (B, 1, D).
        layer: the layer.
        past: keys and values of the positions before, (B, H, T, E) each.
        memory: keys and values of the source, (B, H, S, E) each.
        bias: additive mask of the source (B, 1, 1, S).

    Returns:
        (B, 1, D), and keys and values with the new position, (B, H, T + 1, E) each.
    """
    attention = layer.self_attention
    packed = _project_parts(graph, pre_norm(graph, x, layer.frame_self), attention, 0, 3)
    q, *new = split_heads(graph, packed, attention, 3)  # (B, H, 1, E) each
    cache = [graph.add("Concat", *pair, axis=2) for pair in zip(past, new, strict=True)]
    x = add_residual(graph, x, attend(graph, [q, *cache], attention), layer.frame_self)
    cross = layer.cross_attention
    packed = _project_parts(graph, pre_norm(graph, x, layer.frame_cross), cross, 0, 1)
    queries = split_heads(graph, packed, cross, 1)
    x = add_residual(graph, x, attend(graph, [*queries, *memory], cross, bias), layer.frame_cross)
    inner = feed_forward(graph, pre_norm(graph, x, layer.frame_ff), layer.feed_forward)
    return add_residual(graph, x, inner, layer.frame_ff), cache


def _memory_cache(graph: Graph, memory: str, layer: DecoderLayer) -> list[str]:
    """Project memory (B, S, D) to the keys and values of a layer, (B, H, S, E) each."""
    attention = layer.cross_attention
    return split_heads(graph, _project_parts(graph, memory, attention, 1, 3), attention, 2)


def _project_parts(
    graph: Graph, x: str, attention: MultiHeadAttention, first: int, end: int
) -> str:
    """Apply the projections `first` to `end` - 1 of queries, keys, values: (B, T, n D)."""
    linear, d_model = attention.qkv_proj, attention.d_model
    if (first, end) == (0, 3):
        return project(graph, x, linear.weight, linear.bias)
    part = slice(first * d_model, end * d_model)
    return project(graph, x, linear.weight[part], linear.bias[part])


def _layer(graph: Graph, stacked: str, number: int) -> str:
    """Select a layer: (L, B, H, N, E) to (B, H, N, E)."""
    return graph.add("Gather", stacked, graph.constant(torch.tensor(number)), axis=0)


def _stack(graph: Graph, caches: Sequence[Sequence[str]], names: Sequence[str]) -> None:
    """Stack the keys and values of all layers as outputs of the graph: (L, B, H, N, E) each."""
    for values, name in zip(zip(*caches, strict=True), names, strict=True):
        layers = [graph.add("Unsqueeze", each, graph.constant([0])) for each in values]
        graph.add("Concat", *layers, axis=0, output=name)


def _length(graph: Graph, value: str, *, axis: int) -> str:
    """Return the size of a dimension as float32: (1,)."""
    size = graph.add("Shape", value, start=axis, end=axis + 1)
    return graph.add("Cast", size, to=FLOAT)


def _cache_shape(model: Transformer, length: str) -> tuple[str, list[int | str]]:
    """Return the type and shape of the keys or values of all layers."""
    config = model.config
    d_head = config.d_model // config.n_heads
    return "FLOAT", [config.n_decoder_layers, "B", config.n_heads, length, d_head]

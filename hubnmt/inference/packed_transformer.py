"""The Transformer with its weights laid out for fast inference.

Computes the same values as `model.transformer`, the readable reference, up to rounding. A
decoding step computes attention as two batched products, because the fused kernel's start-up costs
more for so few queries; masks without effect are skipped. See tests/benchmarks/RESULTS.md.

Some weights are shared with the model, which must not change afterwards.
"""

import math
from typing import cast

import torch
from torch import Tensor
from torch.nn import functional

from hubnmt.inference.int8_layers import pack_int8
from hubnmt.inference.memory import keep_freed_memory
from hubnmt.inference.onednn_layers import pack_onednn
from hubnmt.inference.packed_cache import MIN_KEYS, PackedCache, PackedLayerCache, to_bias
from hubnmt.inference.packed_layers import (
    map_products,
    pack_decoder_layer,
    pack_encoder_layer,
    pack_final_norm,
    pack_projection,
)
from hubnmt.inference.packed_sentence import FoldedCrossAttention, SentenceCache
from hubnmt.model.layers import DecoderLayer, EncoderLayer
from hubnmt.model.masks import padding_mask
from hubnmt.model.transformer import Transformer


class PackedTransformer:
    """Inference-only `Transformer`; see there for the methods."""

    def __init__(self, model: Transformer, *, is_int8: bool = False) -> None:
        """Copy the weights of a model in eval mode; `is_int8` multiplies in 8 bits on a CPU."""
        keep_freed_memory()
        with torch.no_grad():
            self._n_heads = model.config.n_heads
            self._scale = math.sqrt(model.config.d_model)
            self._positions = model.positions
            self._src_table = model.src_embedding.weight.detach()  # (V source, D)
            self._tgt_table = model.tgt_embedding.weight.detach()  # (V, D)
            self._encoder = [
                pack_encoder_layer(cast(EncoderLayer, layer)) for layer in model.encoder.layers
            ]
            self._decoder = [
                pack_decoder_layer(cast(DecoderLayer, layer)) for layer in model.decoder.layers
            ]
            self._encoder_norm = pack_final_norm(model.encoder.final_norm)
            self._decoder_norm = pack_final_norm(model.decoder.final_norm)
            self._output = pack_projection(model.output_proj.weight)
            pack = pack_int8 if is_int8 else pack_onednn
            self._encoder = [map_products(layer, pack) for layer in self._encoder]
            self._decoder = [map_products(layer, pack) for layer in self._decoder]
            self._output = map_products(self._output, pack)

    def encode(self, src_ids: Tensor, src_pad_mask: Tensor) -> Tensor:
        """Encode source ids (B, S) with pad mask (B, S), True = padding: memory (B, S, D)."""
        n_rows, n_tokens = src_ids.shape
        mask = None if not src_pad_mask.any() else padding_mask(src_pad_mask)
        x = self._embed(self._src_table, src_ids, 0, n_tokens).flatten(0, 1)  # (B S, D)
        for layer in self._encoder:
            q, k, v = self._split(layer.qkv(layer.self_residual.pre_norm(x)), n_rows, 3)
            mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1.0)
            merged = mixed.transpose(1, 2).reshape(x.shape)  # (B S, D)
            x = layer.feed_forward(layer.self_residual.add_residual(x, merged))
        return self._encoder_norm(x).view(n_rows, n_tokens, -1)

    def precompute_cross_attention(
        self, memory: Tensor, src_pad_mask: Tensor
    ) -> PackedCache | SentenceCache:
        """Create the decoder cache for memory (B, S, D)."""
        n_rows, n_tokens, d_model = memory.shape
        flat = memory.flatten(0, 1)  # (B S, D)
        # Up to this length the two folded matrices are smaller than the two they replace.
        if n_rows == 1 and n_tokens * self._n_heads <= d_model and not src_pad_mask.any():
            cross = [FoldedCrossAttention.of(layer, flat, self._n_heads) for layer in self._decoder]
            return SentenceCache(cross, self._n_heads)
        min_keys = MIN_KEYS if n_rows > 1 else 1
        caches = []
        for layer in self._decoder:
            k, v = self._split(layer.cross_kv(flat), n_rows, 2)  # (B, H, S, E) each
            # Stored as (B, H, E, S), which halves the time of the scores.
            k = k.transpose(2, 3).contiguous().transpose(2, 3)
            caches.append(PackedLayerCache(k, v.contiguous(), min_keys=min_keys))
        return PackedCache(caches, padding_mask(src_pad_mask), min_keys=min_keys)

    def step(self, last_ids: Tensor, cache: PackedCache | SentenceCache) -> Tensor:
        """Decode one more token for each of the W hypotheses of each sentence.

        Args:
            last_ids: (B, W) the newest token of each hypothesis; bos at first.
            cache: state of the previous steps; extended by one position.

        Returns:
            hidden (B, W, D).
        """
        position = cache.n_positions
        x = self._embed(self._tgt_table, last_ids.view(-1), position, position + 1)  # (B W, D)
        if isinstance(cache, SentenceCache):
            x = self._decode_single(x, cache)
        else:
            x = self._decode(x, cache, *last_ids.shape)
        return self._decoder_norm(x).view(*last_ids.shape, -1)

    def _decode(self, x: Tensor, cache: PackedCache, n_rows: int, width: int) -> Tensor:
        """Run the layers for several sentences: (B W, D) to (B W, D)."""
        self_bias = to_bias(cache.advance(width), x.dtype)
        for layer, past in zip(self._decoder, cache.layers, strict=True):
            qkv = layer.qkv(layer.self_residual.pre_norm(x)).view(
                n_rows, width, 3, self._n_heads, -1
            )
            q, kv = qkv[:, :, 0].transpose(1, 2), qkv[:, :, 1:]
            x = layer.self_residual.add_residual(x, _attend(q, *past.append(kv), self_bias))
            (q,) = self._split(layer.cross_q(layer.cross_residual.pre_norm(x)), n_rows, 1)
            mixed = _attend(q, past.memory_k, past.memory_v, cache.memory_bias)
            x = layer.feed_forward(layer.cross_residual.add_residual(x, mixed))
        return x

    def _decode_single(self, x: Tensor, cache: SentenceCache) -> Tensor:
        """Run the layers for one sentence: (W, D) to (W, D)."""
        bias, places = cache.advance(x.shape[0])
        for layer, cross, (row, q, k, v) in zip(self._decoder, cache.cross, places, strict=True):
            layer.qkv.write_to(row, layer.self_residual.pre_norm(x))
            scores = torch.bmm(q, k) if bias is None else torch.baddbmm(bias, q, k)  # (H, W, K)
            mixed = torch.bmm(scores.softmax(-1), v).transpose(0, 1)  # (W, H, E)
            x = layer.self_residual.add_residual(x, mixed.reshape(x.shape))
            x = layer.feed_forward(cross(x, layer.cross_residual))
        return x

    def project(self, hidden: Tensor) -> Tensor:
        """Project to the vocabulary: (..., D) to logits (..., V)."""
        return self._output(hidden)

    def _embed(self, table: Tensor, ids: Tensor, start: int, end: int) -> Tensor:
        """Embed ids (B, T) at positions `start` to `end` - 1, or (N,) at one position: (..., D)."""
        positions = self._positions.lookup(start, end).to(table.dtype)  # (T or 1, D)
        return torch.add(positions, torch.embedding(table, ids), alpha=self._scale)

    def _split(self, packed: Tensor, n_rows: int, n_parts: int) -> tuple[Tensor, ...]:
        """Split (B T, parts D) into parts and heads: (B, H, T, E) each."""
        shape = (n_rows, packed.shape[0] // n_rows, n_parts, self._n_heads, -1)
        return packed.view(shape).permute(2, 0, 3, 1, 4).unbind()


def _attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    """Apply scaled dot-product attention to queries that are already scaled.

    Args:
        q: (B, H, Q, E).
        k: (B, H, K, E).
        v: (B, H, K, E).
        bias: (B, 1, Q or 1, K) additive mask, 0 = attend, -inf = masked; None = no mask.

    Returns:
        (B Q, D).
    """
    n_rows, n_heads, n_queries, d_head = q.shape
    queries = q.reshape(n_rows * n_heads, n_queries, d_head)
    scores = torch.bmm(queries, k.transpose(2, 3).flatten(0, 1))  # (B H, Q, K)
    if bias is not None:
        scores.view(n_rows, n_heads, n_queries, -1).add_(bias)
    mixed = torch.bmm(scores.softmax(-1), v.flatten(0, 1))  # (B H, Q, E)
    if n_queries > 1:
        mixed = mixed.view(q.shape).transpose(1, 2)  # (B, Q, H, E)
    return mixed.reshape(n_rows * n_queries, n_heads * d_head)  # (B Q, D)

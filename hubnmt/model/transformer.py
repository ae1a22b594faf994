"""The whole: encoder, decoder, and the projection to the vocabulary.

Takes ids and padding facts, gives `memory`, hidden states, logits or attention maps. Must not know
text, files, loss or optimizer. Source: Vaswani et al. 2017, Figure 1.
"""

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from hubnmt.config import ModelConfig
from hubnmt.model.embedding import SinusoidalPositions, TokenEmbedding
from hubnmt.model.kv_cache import DecoderCache, LayerCache
from hubnmt.model.layers import DecoderLayer, EncoderLayer
from hubnmt.model.masks import causal_mask, padding_mask


class AttentionMaps(NamedTuple):
    """What every head looked at; rows (the last dimension) sum to 1."""

    src_self_attn: Tensor
    """(B, L encoder, H, S, S)."""
    tgt_self_attn: Tensor
    """(B, L decoder, H, T, T)."""
    cross_attn: Tensor
    """(B, L decoder, H, T, S)."""


class Encoder(nn.Module):
    """A stack of encoder layers, with a final norm where the layers leave the stream unnormed."""

    def __init__(self, config: ModelConfig) -> None:
        """Build `n_encoder_layers` floors."""
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.n_encoder_layers))
        pre = config.norm_order == "pre"
        self.final_norm: nn.Module = nn.LayerNorm(config.d_model) if pre else nn.Identity()

    def forward(
        self, x: Tensor, attn_mask: Tensor, *, need_weights: bool = False
    ) -> tuple[Tensor, list[Tensor]]:
        """Map x (B, S, D) to memory (B, S, D), with each layer's (B, H, S, S) if asked."""
        all_weights = []
        for layer in self.layers:
            x, weights = layer(x, attn_mask, need_weights=need_weights)
            if weights is not None:
                all_weights.append(weights)
        return self.final_norm(x), all_weights


class Decoder(nn.Module):
    """A stack of decoder layers, with a final norm where the layers leave the stream unnormed."""

    def __init__(self, config: ModelConfig) -> None:
        """Build `n_decoder_layers` floors."""
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.n_decoder_layers))
        pre = config.norm_order == "pre"
        self.final_norm: nn.Module = nn.LayerNorm(config.d_model) if pre else nn.Identity()

    def precompute_cross_attention(
        self, memory: Tensor, memory_mask: Tensor
    ) -> DecoderCache[LayerCache]:
        """Start a cache for memory (B, S, D): keys and values of every layer, computed once."""
        layers = [
            cast(DecoderLayer, layer).precompute_cross_attention(memory) for layer in self.layers
        ]
        return DecoderCache(layers, memory_mask)

    def forward(
        self,
        x: Tensor,
        cache: DecoderCache[LayerCache],
        self_mask: Tensor,
        *,
        is_causal: bool = False,
        need_weights: bool = False,
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Map x (B, T, D) to hidden (B, T, D), with self and cross weights per layer if asked."""
        all_self, all_cross = [], []
        for layer, layer_cache in zip(self.layers, cache.layers, strict=True):
            x, self_weights, cross_weights = layer(
                x,
                layer_cache,
                self_mask=self_mask,
                memory_mask=cache.memory_mask,
                is_causal=is_causal,
                need_weights=need_weights,
            )
            if self_weights is not None and cross_weights is not None:
                all_self.append(self_weights)
                all_cross.append(cross_weights)
        return self.final_norm(x), all_self, all_cross


class Transformer(nn.Module):
    """Encoder-decoder Transformer: `encode`, `decode`, `project`; `step` is decode with a memory.

    `decode` and `step` return hidden states, so that training may fuse projection and loss, and a
    search may project the last position only. `forward` is the textbook composition of all three.
    """

    def __init__(self, config: ModelConfig) -> None:
        """Build and initialise all weights from torch's current random state."""
        super().__init__()
        self.config = config
        self.src_embedding = TokenEmbedding(config.src_vocab_size, config.d_model)
        self.tgt_embedding = (
            self.src_embedding
            if config.share_embeddings
            else TokenEmbedding(config.tgt_vocab_size, config.d_model)
        )
        self.positions = SinusoidalPositions(config.d_model, config.dropout)
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.output_proj = nn.Linear(config.d_model, config.tgt_vocab_size, bias=False)
        nn.init.normal_(self.output_proj.weight, std=config.d_model**-0.5)
        if config.tie_output:
            self.output_proj.weight = self.tgt_embedding.weight

    def encode(self, src_ids: Tensor, src_pad_mask: Tensor) -> Tensor:
        """Read the source: ids (B, S), pad mask (B, S), True = padding, to memory (B, S, D)."""
        memory, _ = self.encoder(self._embed_src(src_ids), padding_mask(src_pad_mask))
        return memory  # type: ignore[no-any-return]

    def decode(self, tgt_in: Tensor, memory: Tensor, src_pad_mask: Tensor) -> Tensor:
        """Run the decoder over known target tokens, each seeing only its past.

        Args:
            tgt_in: (B, T) ids, bos first. Padding at the end needs no mask: no real token looks
                ahead, and the loss skips what pads say.
            memory: (B, S, D) from `encode`.
            src_pad_mask: (B, S), True = padding.

        Returns:
            hidden (B, T, D); `project` turns it into logits.
        """
        hidden, _, _ = self._teacher_force(tgt_in, memory, src_pad_mask, need_weights=False)
        return hidden

    def project(self, hidden: Tensor) -> Tensor:
        """Score every piece of the vocabulary: (..., D) to logits (..., V)."""
        return functional.linear(hidden, self.output_proj.weight)

    def forward(self, src_ids: Tensor, tgt_in: Tensor, src_pad_mask: Tensor) -> Tensor:
        """Map source and target ids, (B, S) and (B, T), to logits (B, T, V)."""
        memory = self.encode(src_ids, src_pad_mask)
        return self.project(self.decode(tgt_in, memory, src_pad_mask))

    def precompute_cross_attention(
        self, memory: Tensor, src_pad_mask: Tensor
    ) -> DecoderCache[LayerCache]:
        """Start step-wise decoding of memory (B, S, D)."""
        return self.decoder.precompute_cross_attention(memory, padding_mask(src_pad_mask))

    def step(self, last_ids: Tensor, cache: DecoderCache[LayerCache]) -> Tensor:
        """Decode one more token for each of the W hypotheses of each sentence.

        Args:
            last_ids: (B, W) the newest token of each hypothesis; bos at first.
            cache: what was decoded so far; grows by one position.

        Returns:
            hidden (B, W, D).
        """
        x = self.positions.at(self.tgt_embedding(last_ids), cache.n_positions)  # (B, W, D)
        self_mask = cache.advance(last_ids.shape[1])  # (B, 1, W, K)
        hidden, _, _ = self.decoder(x, cache, self_mask)
        return hidden  # type: ignore[no-any-return]

    def attend(
        self, src_ids: Tensor, tgt_in: Tensor, src_pad_mask: Tensor
    ) -> tuple[Tensor, AttentionMaps]:
        """Replay known tokens with explicit attention: logits (B, T, V) and all weights."""
        memory, src_self = self.encoder(
            self._embed_src(src_ids), padding_mask(src_pad_mask), need_weights=True
        )
        hidden, tgt_self, cross = self._teacher_force(
            tgt_in, memory, src_pad_mask, need_weights=True
        )
        maps = AttentionMaps(
            src_self_attn=torch.stack(src_self, dim=1),  # (B, L, H, S, S)
            tgt_self_attn=torch.stack(tgt_self, dim=1),  # (B, L, H, T, T)
            cross_attn=torch.stack(cross, dim=1),  # (B, L, H, T, S)
        )
        return self.project(hidden), maps

    def cross_attend(self, src_ids: Tensor, tgt_in: Tensor, src_pad_mask: Tensor) -> Tensor:
        """Replay known tokens with explicit attention: the cross-attention, (B, L, H, T, S)."""
        memory = self.encode(src_ids, src_pad_mask)
        _, _, cross = self._teacher_force(tgt_in, memory, src_pad_mask, need_weights=True)
        return torch.stack(cross, dim=1)  # (B, L, H, T, S)

    def _embed_src(self, src_ids: Tensor) -> Tensor:
        return self.positions(self.src_embedding(src_ids))  # type: ignore[no-any-return]  # (B, S, D)

    def _teacher_force(
        self, tgt_in: Tensor, memory: Tensor, src_pad_mask: Tensor, *, need_weights: bool
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        x = self.positions(self.tgt_embedding(tgt_in))  # (B, T, D)
        n_tokens = tgt_in.shape[1]
        self_mask = causal_mask(n_tokens, n_tokens, device=tgt_in.device)  # (1, 1, T, T)
        cache = self.precompute_cross_attention(memory, src_pad_mask)
        return self.decoder(x, cache, self_mask, is_causal=True, need_weights=need_weights)  # type: ignore[no-any-return]

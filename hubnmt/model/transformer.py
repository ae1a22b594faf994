"""The Transformer: encoder, decoder and output projection.

Source: Vaswani et al. 2017, Figure 1, https://arxiv.org/abs/1706.03762
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn

from hubnmt.config import ModelConfig
from hubnmt.model.attention import DecoderCache, LayerCache, causal_mask, padding_mask
from hubnmt.model.layers import DecoderLayer, EncoderLayer, SinusoidalPositions, TokenEmbedding

T = TypeVar("T")

OLD_NAMES = {
    "frame_self": "self_residual",
    "frame_cross": "cross_residual",
    "frame_ff": "ff_residual",
    "widen": "linear1",
    "narrow": "linear2",
}
"""Present names of modules by those in the weights of earlier versions."""


def rename_weights(weights: Mapping[str, T]) -> dict[str, T]:
    """Give weights of earlier versions their present names."""
    return {
        ".".join(OLD_NAMES.get(part, part) for part in name.split(".")): value
        for name, value in weights.items()
    }


class AttentionMaps(NamedTuple):
    """Attention weights of every head; the last dimension sums to 1."""

    src_self_attn: Tensor
    """(B, L encoder, H, S, S)."""
    tgt_self_attn: Tensor
    """(B, L decoder, H, T, T)."""
    cross_attn: Tensor
    """(B, L decoder, H, T, S)."""


class Encoder(nn.Module):
    """Stack of encoder layers, followed by a layer norm with pre-norm."""

    def __init__(self, config: ModelConfig) -> None:
        """Build `n_encoder_layers` layers."""
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.n_encoder_layers))
        pre = config.norm_order == "pre"
        self.final_norm: nn.Module = nn.LayerNorm(config.d_model) if pre else nn.Identity()

    def forward(
        self, x: Tensor, attn_mask: Tensor | None, *, need_weights: bool = False
    ) -> tuple[Tensor, list[Tensor]]:
        """Map x (B, S, D) to memory (B, S, D), and each layer's weights (B, H, S, S) if needed."""
        all_weights = []
        for layer in self.layers:
            x, weights = layer(x, attn_mask, need_weights=need_weights)
            if weights is not None:
                all_weights.append(weights)
        return self.final_norm(x), all_weights


class Decoder(nn.Module):
    """Stack of decoder layers, followed by a layer norm with pre-norm."""

    def __init__(self, config: ModelConfig) -> None:
        """Build `n_decoder_layers` layers."""
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.n_decoder_layers))
        pre = config.norm_order == "pre"
        self.final_norm: nn.Module = nn.LayerNorm(config.d_model) if pre else nn.Identity()

    def forward(
        self,
        x: Tensor,
        cache: DecoderCache,
        self_mask: Tensor | None,
        *,
        is_causal: bool = False,
        need_weights: bool = False,
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Map x (B, T, D) to hidden (B, T, D), and each layer's weights if needed."""
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
    """Encoder-decoder Transformer: `encode`, `decode`, `project`; `step` decodes with a cache.

    `decode` and `step` return hidden states, so that training can fuse projection and loss.
    `forward` composes `encode`, `decode` and `project`.
    """

    def __init__(self, config: ModelConfig) -> None:
        """Build and initialize all weights from torch's global random state."""
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

    def encode(self, src_ids: Tensor, src_pad_mask: Tensor | None) -> Tensor:
        """Encode source ids (B, S) with pad mask (B, S), True = padding: memory (B, S, D)."""
        memory, _ = self.encoder(self._embed_src(src_ids), padding_mask(src_pad_mask))
        return memory  # type: ignore[no-any-return]

    def decode(self, tgt_in: Tensor, memory: Tensor, src_pad_mask: Tensor) -> Tensor:
        """Run the decoder on known target tokens (teacher forcing) with a causal mask.

        Args:
            tgt_in: (B, T) ids, bos first. Trailing padding needs no mask: the causal mask hides it
                from real tokens, and the loss ignores padded positions.
            memory: (B, S, D) from `encode`.
            src_pad_mask: (B, S), True = padding.

        Returns:
            hidden (B, T, D); `project` maps it to logits.
        """
        hidden, _, _ = self._teacher_force(tgt_in, memory, src_pad_mask, need_weights=False)
        return hidden

    def project(self, hidden: Tensor) -> Tensor:
        """Project to the vocabulary: (..., D) to logits (..., V)."""
        return self.output_proj(hidden)  # type: ignore[no-any-return]

    def forward(self, src_ids: Tensor, tgt_in: Tensor, src_pad_mask: Tensor) -> Tensor:
        """Map source and target ids, (B, S) and (B, T), to logits (B, T, V)."""
        memory = self.encode(src_ids, src_pad_mask)
        return self.project(self.decode(tgt_in, memory, src_pad_mask))

    def new_cache(self, memory: Tensor, src_pad_mask: Tensor | None) -> DecoderCache:
        """Create a decoder cache with the cross-attention keys and values of memory (B, S, D)."""
        layers = cast(Iterable[DecoderLayer], self.decoder.layers)
        caches = [LayerCache(*layer.cross_attention.project_memory(memory)) for layer in layers]
        return DecoderCache(caches, padding_mask(src_pad_mask))

    def step(self, last_ids: Tensor, cache: DecoderCache) -> Tensor:
        """Decode one more token for each of the W hypotheses of each sentence.

        Args:
            last_ids: (B, W) the newest token of each hypothesis; bos at first.
            cache: state of the previous steps; extended by one position.

        Returns:
            hidden (B, W, D).
        """
        x = self.tgt_embedding(last_ids)
        x = self.positions(x, position=cache.n_positions)  # (B, W, D)
        self_mask = cache.advance(last_ids.shape[1])  # (B, 1, W, K) or None
        hidden, _, _ = self.decoder(x, cache, self_mask)
        return hidden  # type: ignore[no-any-return]

    def attend(
        self, src_ids: Tensor, tgt_in: Tensor, src_pad_mask: Tensor
    ) -> tuple[Tensor, AttentionMaps]:
        """Run with teacher forcing: logits (B, T, V) and all attention weights."""
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

    def _embed_src(self, src_ids: Tensor) -> Tensor:
        return self.positions(self.src_embedding(src_ids))  # type: ignore[no-any-return]  # (B, S, D)

    def _teacher_force(
        self, tgt_in: Tensor, memory: Tensor, src_pad_mask: Tensor, *, need_weights: bool
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        x = self.positions(self.tgt_embedding(tgt_in))  # (B, T, D)
        n_tokens = tgt_in.shape[1]
        self_mask = causal_mask(n_tokens, n_tokens, device=tgt_in.device)  # (1, 1, T, T)
        cache = self.new_cache(memory, src_pad_mask)
        return self.decoder(x, cache, self_mask, is_causal=True, need_weights=need_weights)  # type: ignore[no-any-return]

"""Token embedding, positional encoding, feed-forward network, encoder and decoder layers.

Source: Vaswani et al. 2017, sections 3.1 and 3.3 to 3.5, https://arxiv.org/abs/1706.03762;
pre-norm order after Xiong et al. 2020, https://arxiv.org/abs/2002.04745
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from hubnmt.config import ModelConfig
from hubnmt.model.attention import LayerCache, MultiHeadAttention
from hubnmt.model.dropout import Dropout

N_TABULATED = 1024
"""Number of precomputed positions; later ones are computed on demand, so length is unlimited."""


def sinusoidal_positions(start: int, end: int, d_model: int) -> Tensor:
    """Return positions `start` to `end - 1`, (T, D) float32: sine at even features, else cosine."""
    position = torch.arange(start, end, dtype=torch.float32)[:, None]  # (T, 1)
    even_features = torch.arange(0, d_model, 2, dtype=torch.float32)
    frequency = torch.exp(even_features * (-math.log(10_000.0) / d_model))  # (D / 2,)
    angle = position * frequency  # (T, D / 2)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)  # (T, D)


class TokenEmbedding(nn.Embedding):
    """Embedding table with outputs scaled by sqrt(d_model)."""

    def __init__(self, vocab_size: int, d_model: int) -> None:
        """Initialize with variance 1 / D, so that scaled rows have variance 1."""
        super().__init__(vocab_size, d_model)
        nn.init.normal_(self.weight, std=d_model**-0.5)

    def forward(self, ids: Tensor) -> Tensor:
        """Embed ids (B, T): (B, T, D)."""
        return super().forward(ids) * math.sqrt(self.embedding_dim)


class SinusoidalPositions(nn.Module):
    """Sinusoidal positional encoding, followed by dropout."""

    def __init__(self, d_model: int, dropout: float) -> None:
        """Precompute the first positions in a non-persistent buffer."""
        super().__init__()
        self.d_model = d_model
        self.table: Tensor
        self.register_buffer("table", torch.empty(N_TABULATED, d_model), persistent=False)
        if not self.table.is_meta:
            self.table.copy_(sinusoidal_positions(0, N_TABULATED, d_model))
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, *, position: int | None = None) -> Tensor:
        """Add positions 0, 1, ... to x (B, T, D), or one position to all W of x (B, W, D)."""
        start, end = (0, x.shape[1]) if position is None else (position, position + 1)
        x = x + self._look_up(start, end).to(x)
        return self.dropout(x) if self.training else x

    def _look_up(self, start: int, end: int) -> Tensor:
        if end <= N_TABULATED:
            return self.table[start:end]  # (T, D)
        return sinusoidal_positions(start, end, self.d_model).to(self.table)  # (T, D)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": functional.gelu,
}
"""Activation functions by their names in the configuration."""


class FeedForward(nn.Module):
    """Linear (D to F), activation, dropout, linear (F to D)."""

    def __init__(
        self, d_model: int, d_ff: int, *, activation: Literal["relu", "gelu"], dropout: float
    ) -> None:
        """Initialize both matrices (Glorot uniform); biases are 0."""
        super().__init__()
        self.linear1 = nn.Linear(d_model, d_ff)
        self.activate = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)
        self.linear2 = nn.Linear(d_ff, d_model)
        for linear in (self.linear1, self.linear2):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def expand(self, x: Tensor) -> Tensor:
        """Return the activations of the inner layer: (B, T, D) to (B, T, F)."""
        return self.activate(self.linear1(x))  # (B, T, F)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, T, D) to (B, T, D)."""
        inner = self.expand(x)  # (B, T, F)
        if self.training:
            inner = self.dropout(inner)
        return self.linear2(inner)  # type: ignore[no-any-return]  # (B, T, D)


class Residual(nn.Module):
    """Residual connection with dropout and pre- or post-layer-norm around a block."""

    def __init__(self, config: ModelConfig) -> None:
        """Build the norm and dropout from the config."""
        super().__init__()
        self.norm = nn.LayerNorm(config.d_model)
        self.dropout = Dropout(config.dropout)
        self.norm_first = config.norm_order == "pre"

    def forward(self, x: Tensor, block: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply `block` with its residual connection: (B, N, D) to (B, N, D)."""
        out = block(self.norm(x) if self.norm_first else x)
        if self.training:
            out = self.dropout(out)
        return x + out if self.norm_first else self.norm(x + out)


def _attention(config: ModelConfig) -> MultiHeadAttention:
    return MultiHeadAttention(config.d_model, config.n_heads, config.attention_dropout)


def _feed_forward(config: ModelConfig) -> FeedForward:
    return FeedForward(
        config.d_model, config.d_ff, activation=config.activation, dropout=config.ff_dropout
    )


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        """Build both blocks and their residual connections."""
        super().__init__()
        self.self_attention = _attention(config)
        self.feed_forward = _feed_forward(config)
        self.self_residual = Residual(config)
        self.ff_residual = Residual(config)

    def forward(
        self, x: Tensor, attn_mask: Tensor | None, *, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Map x (B, S, D) to (B, S, D), and weights (B, H, S, S) or None."""
        weights: Tensor | None = None

        def attend(h: Tensor) -> Tensor:
            nonlocal weights
            q, k, v = self.self_attention.project_all(h)  # (B, H, S, E) each
            mixed, weights = self.self_attention(
                q, k, v, attn_mask=attn_mask, need_weights=need_weights
            )
            return mixed  # type: ignore[no-any-return]  # (B, S, D)

        x = self.self_residual(x, attend)
        return self.ff_residual(x, self.feed_forward), weights


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention to the source, then feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        """Build the three blocks and their residual connections."""
        super().__init__()
        self.self_attention = _attention(config)
        self.cross_attention = _attention(config)
        self.feed_forward = _feed_forward(config)
        self.self_residual = Residual(config)
        self.cross_residual = Residual(config)
        self.ff_residual = Residual(config)

    def forward(
        self,
        x: Tensor,
        cache: LayerCache,
        *,
        self_mask: Tensor | None,
        memory_mask: Tensor | None,
        is_causal: bool = False,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Map x (B, T, D) to (B, T, D).

        Args:
            x: new target positions; earlier ones are in the cache.
            cache: this layer's cross- and self-attention cache; new entries are appended.
            self_mask: (B or 1, 1, T, K) over cached and new positions; None = attend to all.
            memory_mask: (B, 1, 1, S); None = attend to all.
            is_causal: whether `self_mask` is the causal mask and the cache is empty.
            need_weights: also return the self weights (B, H, T, K) and cross weights (B, H, T, S).
        """
        self_weights: Tensor | None = None
        cross_weights: Tensor | None = None

        def attend_self(h: Tensor) -> Tensor:
            nonlocal self_weights
            q, k, v = self.self_attention.project_all(h)  # (B, H, T, E) each
            k, v = cache.append(k, v)  # (B, H, K, E) each
            mixed, self_weights = self.self_attention(
                q, k, v, attn_mask=self_mask, is_causal=is_causal, need_weights=need_weights
            )
            return mixed  # type: ignore[no-any-return]  # (B, T, D)

        def attend_memory(h: Tensor) -> Tensor:
            nonlocal cross_weights
            q = self.cross_attention.project_queries(h)  # (B, H, T, E)
            mixed, cross_weights = self.cross_attention(
                q,
                cache.memory_k,
                cache.memory_v,
                attn_mask=memory_mask,
                need_weights=need_weights,
            )
            return mixed  # type: ignore[no-any-return]  # (B, T, D)

        x = self.self_residual(x, attend_self)
        x = self.cross_residual(x, attend_memory)
        return self.ff_residual(x, self.feed_forward), self_weights, cross_weights

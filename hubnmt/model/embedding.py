"""Token embedding and sinusoidal positional encoding.

Source: Vaswani et al. 2017, sections 3.4 and 3.5, https://arxiv.org/abs/1706.03762
"""

import math

import torch
from torch import Tensor, nn

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
        return self.dropout(x + self._look_up(start, end).to(x))  # type: ignore[no-any-return]

    def _look_up(self, start: int, end: int) -> Tensor:
        if end <= N_TABULATED:
            return self.table[start:end]  # (T, D)
        return sinusoidal_positions(start, end, self.d_model).to(self.table)  # (T, D)

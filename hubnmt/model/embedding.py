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
    """Compute positions `start` to `end - 1`: sine at even features, cosine at odd ones.

    Returns:
        (end - start, D) float32.

    Source: Vaswani et al. 2017, section 3.5.
    """
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

    def forward(self, x: Tensor, *, start: int = 0) -> Tensor:
        """Add positions `start`, `start + 1`, ... to x (B, T, D): (B, T, D)."""
        return self._add(x, start, start + x.shape[1])

    def at(self, x: Tensor, position: int) -> Tensor:
        """Add the same position to all hypotheses of one step, x (B, W, D): (B, W, D)."""
        return self._add(x, position, position + 1)

    def _add(self, x: Tensor, start: int, end: int) -> Tensor:
        summed: Tensor = self.dropout(x + self.lookup(start, end).to(x))
        return summed

    def lookup(self, start: int, end: int) -> Tensor:
        """Return the encodings of positions `start` to `end` - 1: (T, D)."""
        if end <= N_TABULATED:
            return self.table.narrow(0, start, end - start)  # (T, D)
        return sinusoidal_positions(start, end, self.d_model).to(self.table)  # (T, D)

"""Position-wise feed-forward network.

Source: Vaswani et al. 2017, section 3.3, https://arxiv.org/abs/1706.03762
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from hubnmt.model.dropout import Dropout

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

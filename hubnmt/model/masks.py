"""Attention masks.

A `pad_mask` is True at padding; an `attn_mask` is True where attention is allowed. Only this module
converts one into the other.
Source: Vaswani et al. 2017, section 3.2.3, https://arxiv.org/abs/1706.03762
"""

import torch
from torch import Tensor


def padding_mask(pad_mask: Tensor | None) -> Tensor | None:
    """Return the mask that lets every query attend to every key except padding.

    Args:
        pad_mask: (B, K) bool, True = padding; None = no padding.

    Returns:
        (B, 1, 1, K) bool, True = attend; None = attend to all.
    """
    return None if pad_mask is None else ~pad_mask[:, None, None, :]  # (B, 1, 1, K)


def causal_mask(n_queries: int, n_keys: int, *, device: torch.device | None = None) -> Tensor:
    """Return the mask that lets each position attend to itself and earlier positions.

    With more keys than queries (cached decoding), the queries are the last positions.

    Returns:
        (1, 1, Q, K) bool, True = attend.
    """
    ones = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device)
    return ones.tril(n_keys - n_queries)[None, None]  # (1, 1, Q, K)

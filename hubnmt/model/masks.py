"""Attention masks.

A `pad_mask` is True at padding; an `attn_mask` is True where attention is allowed. Only this module
converts one into the other.
Source: Vaswani et al. 2017, section 3.2.3, https://arxiv.org/abs/1706.03762
"""

import torch
from torch import Tensor


def padding_mask(pad_mask: Tensor | None) -> Tensor | None:
    """Return the attention mask (B, 1, 1, K) of a pad mask (B, K); None if there is no padding."""
    return None if pad_mask is None else ~pad_mask[:, None, None, :]  # (B, 1, 1, K)


def causal_mask(n_queries: int, n_keys: int, *, device: torch.device | None = None) -> Tensor:
    """Return the mask (1, 1, Q, K) that lets each position attend to itself and earlier ones.

    With more keys than queries (cached decoding), the queries are the last positions.
    """
    ones = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device)
    return ones.tril(n_keys - n_queries)[None, None]  # (1, 1, Q, K)

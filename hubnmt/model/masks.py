"""Who may look at whom.

Takes padding facts (`pad_mask`, True = this token is padding), gives attention permissions
(`attn_mask`, True = may look). The only room that turns one polarity into the other. Must not know
the tokenizer or the model. Source: Vaswani et al. 2017, section 3.2.3, https://arxiv.org/abs/1706.03762
"""

import torch
from torch import Tensor


def padding_mask(pad_mask: Tensor) -> Tensor:
    """Let every query look at every key that is not padding.

    Args:
        pad_mask: (B, K) bool, True = padding.

    Returns:
        (B, 1, 1, K) bool, True = may look.
    """
    return ~pad_mask[:, None, None, :]  # (B, 1, 1, K)


def causal_mask(n_queries: int, n_keys: int, *, device: torch.device | None = None) -> Tensor:
    """Let each position look at itself and at what stands before it.

    With more keys than queries (cached decoding), the queries are the last positions.

    Returns:
        (1, 1, Q, K) bool, True = may look.
    """
    ones = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device)
    return ones.tril(n_keys - n_queries)[None, None]  # (1, 1, Q, K)

"""Attention masks, scaled dot-product attention and multi-head attention.

A `pad_mask` is True at padding; an `attn_mask` is True where attention is allowed.
Source: Vaswani et al. 2017, section 3.2, https://arxiv.org/abs/1706.03762
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from hubnmt.model.dropout import dropout as drop


def padding_mask(pad_mask: Tensor | None) -> Tensor | None:
    """Return the attention mask (B, 1, 1, K) of a pad mask (B, K); None if there is no padding."""
    return None if pad_mask is None else ~pad_mask[:, None, None, :]  # (B, 1, 1, K)


def causal_mask(n_queries: int, n_keys: int, *, device: torch.device | None = None) -> Tensor:
    """Return the mask (1, 1, Q, K) that lets each position attend to itself and earlier ones.

    With more keys than queries (cached decoding), the queries are the last positions.
    """
    ones = torch.ones(n_queries, n_keys, dtype=torch.bool, device=device)
    return ones.tril(n_keys - n_queries)[None, None]  # (1, 1, Q, K)


def scaled_scores(q: Tensor, k: Tensor) -> Tensor:
    """Return the scaled scores of q (B, H, Q, E) and k (B, H, K, E): (B, H, Q, K)."""
    return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, *, attn_mask: Tensor | None = None, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Compute attention with an explicit softmax: equation 1.

    Args:
        q: (B, H, Q, E).
        k: (B, H, K, E).
        v: (B, H, K, E).
        attn_mask: broadcastable to (B, H, Q, K), bool, True = attend. Each query needs at least
            one key; a fully masked row is NaN.
        dropout: probability for the attention weights.

    Returns:
        output (B, H, Q, E) and weights (B, H, Q, K), whose rows sum to 1.
    """
    scores = scaled_scores(q, k)  # (B, H, Q, K)
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    weights = scores.softmax(dim=-1)  # (B, H, Q, K)
    return drop(weights, dropout) @ v, weights  # (B, H, Q, E)


class MultiHeadAttention(nn.Module):
    """Multi-head attention with H heads of E = D / H features.

    The query, key and value projections are one packed matrix, so that self-attention needs one
    product instead of three.
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.0) -> None:
        """Initialize each projection separately (Glorot uniform); biases are 0."""
        super().__init__()
        self.n_heads = n_heads
        self.d_model = d_model
        self.dropout = dropout
        self.qkv_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        for part in self.qkv_proj.weight.chunk(3):
            nn.init.xavier_uniform_(part)
        nn.init.xavier_uniform_(self.out_proj.weight)
        nn.init.zeros_(self.qkv_proj.bias)
        nn.init.zeros_(self.out_proj.bias)

    def project_all(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Project x (B, N, D) to queries, keys and values, (B, H, N, E) each."""
        q, k, v = self.qkv_proj(x).chunk(3, dim=-1)  # (B, N, D) each
        return self._split(q), self._split(k), self._split(v)

    def project_queries(self, x: Tensor) -> Tensor:
        """Project x (B, Q, D) to queries (B, H, Q, E)."""
        weight, bias = self.qkv_proj.weight, self.qkv_proj.bias
        return self._split(functional.linear(x, weight[: self.d_model], bias[: self.d_model]))

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Project the encoder output (B, S, D) to keys and values, (B, H, S, E) each."""
        weight, bias = self.qkv_proj.weight, self.qkv_proj.bias
        packed = functional.linear(memory, weight[self.d_model :], bias[self.d_model :])
        k, v = packed.chunk(2, dim=-1)  # (B, S, D) each
        return self._split(k), self._split(v)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Compute attention and the output projection.

        Args:
            q: projected queries (B, H, Q, E).
            k: projected keys (B, H, K, E).
            v: projected values (B, H, K, E).
            attn_mask: see `scaled_dot_product_attention`.
            is_causal: whether `attn_mask` is the causal mask with Q = K; fused kernels are faster
                with this flag than with an explicit mask.
            need_weights: return the weights (B, H, Q, K) beside the output (B, Q, D).
        """
        dropout = self.dropout if self.training else 0.0
        weights: Tensor | None = None
        # On the CPU the backward pass of the fused kernel takes about nine times as long as the
        # explicit one, at sentence length in bfloat16.
        if need_weights or (q.requires_grad and q.device.type == "cpu"):
            mixed, weights = scaled_dot_product_attention(
                q, k, v, attn_mask=attn_mask, dropout=dropout
            )
        else:
            mask = None if is_causal else attn_mask
            mixed = functional.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=is_causal
            )
        merged = mixed.transpose(1, 2).flatten(2)  # (B, Q, D)
        return self.out_proj(merged), weights if need_weights else None

    def _split(self, x: Tensor) -> Tensor:
        return torch.unflatten(x, -1, (self.n_heads, -1)).transpose(1, 2)  # (B, H, N, E)

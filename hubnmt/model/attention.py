"""Attention: queries look at keys and take home a mixture of values.

Takes (B, N, D) sequences and a permission mask, gives (B, Q, D), and the weights if asked. Must not
know layers or beams. Source: Vaswani et al. 2017, section 3.2.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from hubnmt.model.dropout import dropout as drop


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, *, attn_mask: Tensor | None = None, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Attend with an explicit softmax: the readable path, and the one that shows its weights.

    Args:
        q: (B, H, Q, E).
        k: (B, H, K, E).
        v: (B, H, K, E).
        attn_mask: broadcastable to (B, H, Q, K), bool, True = may look. Each query needs at least
            one key, else its row is not a number.
        dropout: probability that a weight is dropped.

    Returns:
        mixture (B, H, Q, E) and weights (B, H, Q, K), whose rows sum to 1.

    Source: Vaswani et al. 2017, equation 1.
    """
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (B, H, Q, K)
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    weights = scores.softmax(dim=-1)  # (B, H, Q, K)
    return drop(weights, dropout) @ v, weights  # (B, H, Q, E)


class MultiHeadAttention(nn.Module):
    """H attentions side by side, each in its own E = D / H features.

    The projections of queries, keys and values are one packed matrix: self-attention multiplies
    once where three small products would each pay the overhead of a call.
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.0) -> None:
        """Draw the projections (Glorot, as if they were separate); biases start at 0."""
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
        """Queries, keys and values of one sequence x (B, N, D): three times (B, H, N, E)."""
        q, k, v = self.qkv_proj(x).chunk(3, dim=-1)  # (B, N, D) each
        return self._split(q), self._split(k), self._split(v)

    def project_queries(self, x: Tensor) -> Tensor:
        """Queries of x (B, Q, D): (B, H, Q, E)."""
        weight, bias = self.qkv_proj.weight, self.qkv_proj.bias
        return self._split(functional.linear(x, weight[: self.d_model], bias[: self.d_model]))

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of the encoder output (B, S, D): two times (B, H, S, E)."""
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
        """Attend with projected queries (B, H, Q, E), keys and values (B, H, K, E).

        Args:
            q: queries.
            k: keys.
            v: values.
            attn_mask: see `scaled_dot_product_attention`.
            is_causal: says that the mask is the causal one over as many keys as queries; the fused
                kernels are faster for knowing it than for reading it from a mask.
            need_weights: also return what was looked at.

        Returns:
            (B, Q, D), and weights (B, H, Q, K) if `need_weights`; both paths are tested equal.
        """
        dropout = self.dropout if self.training else 0.0
        weights: Tensor | None = None
        # The fused kernel's backward pass on the CPU costs about nine times the explicit one at
        # sentence length in bf16, so CPU training takes the readable path too.
        trains_on_cpu = q.requires_grad and q.device.type == "cpu"
        if need_weights or trains_on_cpu:
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
        """Cut features into heads: (B, N, D) to (B, H, N, E)."""
        return torch.unflatten(x, -1, (self.n_heads, -1)).transpose(1, 2)  # (B, H, N, E)

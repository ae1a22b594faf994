"""Attention masks, scaled dot-product attention, multi-head attention, and its key-value cache.

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
    product instead of three. In a search on a CPU `FastAttention` takes its place.
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


# --- key-value cache ---

# The hypotheses of one sentence share their common prefixes. The cache appends one entry per
# hypothesis and step, and an attention mask selects the ancestors of each hypothesis. Reordering
# the beam copies this small mask instead of every layer's keys and values, and the W hypotheses of
# a sentence are simply W queries. From time to time entries that no hypothesis needs are dropped.

STEPS_BETWEEN_DROPS = 16
"""Steps after which entries are dropped: to drop them copies the others."""


class LayerCache:
    """Keys and values of one decoder layer."""

    def __init__(self, memory_k: Tensor, memory_v: Tensor) -> None:
        """Start with the projected encoder output, (B, H, S, E) each, and no target tokens."""
        self.memory_k = memory_k
        self.memory_v = memory_v
        self._k = self._v = memory_k[:, :, :0]  # (B, H, capacity, E) each, larger than what is used
        self._n_keys = 0

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append keys and values (B, H, Q, E); return all so far, (B, H, K, E) each."""
        start, end = self._n_keys, self._n_keys + k.shape[2]
        self._n_keys = end
        if start == 0:  # teacher forcing appends once, and needs no copy
            self._k, self._v = k, v
            return k, v
        if end > self._k.shape[2]:
            # Targets are about as long as their sources, so usually the buffers grow only once.
            n_unused = (end - start) * (STEPS_BETWEEN_DROPS + 1)
            capacity = max(2 * start, self.memory_k.shape[2] + 8 + n_unused)
            self._k = _grow(self._k, start, capacity)
            self._v = _grow(self._v, start, capacity)
        self._k.narrow(2, start, end - start).copy_(k)
        self._v.narrow(2, start, end - start).copy_(v)
        return self._k.narrow(2, 0, end), self._v.narrow(2, 0, end)

    def select(self, entries: Tensor) -> None:
        """Keep only the given entries of each sentence, (B, n), in this order."""
        self._n_keys = entries.shape[1]
        for x in (self._k, self._v):
            n_rows, n_heads, capacity, _ = x.shape
            first = torch.arange(0, n_rows * n_heads * capacity, capacity, device=x.device)
            rows = first.view(n_rows, n_heads, 1) + entries[:, None]  # (B, H, n) among B H capacity
            x[:, :, : self._n_keys] = torch.embedding(x.flatten(0, 2), rows)  # (B, H, n, E)

    def keep(self, rows: Tensor, moved: Tensor) -> None:
        """Keep only the sentences `rows` (B',), of which those at `moved` change their position."""
        n_src_tokens = self.memory_k.shape[2]
        self.memory_k = _keep(self.memory_k, n_src_tokens, rows, moved)
        self.memory_v = _keep(self.memory_v, n_src_tokens, rows, moved)
        self._k = _keep(self._k, self._n_keys, rows, moved)
        self._v = _keep(self._v, self._n_keys, rows, moved)


def _grow(x: Tensor, n_used: int, capacity: int) -> Tensor:
    """Copy the used part of (B, H, n, E) to a buffer (B, H, capacity, E)."""
    n_rows, n_heads, _, d_head = x.shape
    larger = x.new_empty(n_rows, n_heads, capacity, d_head)
    larger[:, :, :n_used] = x[:, :, :n_used]
    return larger


def _keep(x: Tensor, n_used: int, rows: Tensor, moved: Tensor) -> Tensor:
    """Move the used part of the sentences that change position, and drop the others' rows."""
    if len(moved):
        used = x[:, :, :n_used]
        used.index_copy_(0, moved, used.index_select(0, rows[moved]))
    return x[: len(rows)]


class DecoderCache:
    """Keys and values of all layers, and the ancestor mask of the beam."""

    def __init__(self, layers: list[LayerCache], memory_mask: Tensor | None) -> None:
        """Start without target tokens; memory_mask is (B, 1, 1, S) bool, True = attend, or None."""
        self.layers = layers
        self.memory_mask = memory_mask
        self.n_positions = 0
        """Number of target positions decoded so far: the position of the next token."""
        self._ancestors: Tensor | None = None
        """(B, W, K), True = the entry belongs to the hypothesis or one of its ancestors. None while
        each sentence has had one hypothesis, to which all entries belong."""
        self._n_after_drop = 0
        """Number of entries after those that no hypothesis needs were last dropped."""

    def advance(self, n_queries: int) -> Tensor | None:
        """Extend the ancestor mask by one new token for each of the W = `n_queries` hypotheses.

        Returns:
            (B, 1, W, K + W) bool, True = attend: ancestors and the hypothesis itself; None = attend
            to all.
        """
        n_known = 1 if self._ancestors is None else self._ancestors.shape[1]
        if n_queries != n_known:
            raise ValueError(
                f"got {n_queries} hypotheses, but the cache holds {n_known}; reorder it first"
            )
        self.n_positions += 1
        if self._ancestors is None:
            return None
        n_new = self._ancestors.shape[2] - self._n_after_drop
        if n_queries > 1 and n_new >= STEPS_BETWEEN_DROPS * n_queries:
            self._drop_unneeded()
        own = torch.eye(n_queries, dtype=torch.bool, device=self._ancestors.device)
        own = own.expand(len(self._ancestors), -1, -1)  # (B, W, W)
        self._ancestors = torch.cat((self._ancestors, own), dim=2)  # (B, W, K + W)
        return self._ancestors[:, None]  # (B, 1, W, K + W)

    def _drop_unneeded(self) -> None:
        assert self._ancestors is not None
        is_needed = self._ancestors.any(1)  # (B, K)
        self._n_after_drop = int(is_needed.sum(1).amax())
        entries = is_needed.sort(descending=True, stable=True).indices[
            :, : self._n_after_drop
        ]  # (B, n)
        index = entries[:, None].expand(-1, self._ancestors.shape[1], -1)
        self._ancestors = self._ancestors.gather(2, index)  # (B, W, n)
        for layer in self.layers:
            layer.select(entries)

    def reorder(self, parents: Tensor) -> None:
        """Make hypothesis w of sentence b continue `parents[b, w]`; parents is (B, W') int64."""
        if self._ancestors is None:
            if parents.shape[1] == 1:
                return
            n_rows, n_keys = len(parents), self.n_positions
            self._ancestors = parents.new_ones(n_rows, 1, n_keys, dtype=torch.bool)  # (B, 1, K)
        index = parents[:, :, None].expand(-1, -1, self._ancestors.shape[2])  # (B, W', K)
        self._ancestors = self._ancestors.gather(1, index)  # (B, W', K)

    def keep(self, rows: Tensor) -> None:
        """Keep only these sentences; rows is (B',) int64, each at most once.

        Only sentences that change position are copied, so fill gaps from the end.
        """
        moved = (rows != torch.arange(len(rows), device=rows.device)).nonzero()[:, 0]
        for layer in self.layers:
            layer.keep(rows, moved)
        if self.memory_mask is not None:
            self.memory_mask = self.memory_mask[rows]
        if self._ancestors is not None:
            self._ancestors = self._ancestors[rows]

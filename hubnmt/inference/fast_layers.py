"""Drop-in layers for the search on a CPU, put into a copy of the model.

They compute what the layers of `hubnmt.model` compute, up to rounding, from weights in layouts that
are multiplied faster. Which products are worth it was measured, see tests/benchmarks/RESULTS.md.
"""

import copy
import ctypes
import functools
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from hubnmt.model.attention import MultiHeadAttention
from hubnmt.model.transformer import Transformer

MIN_ROWS = 2
"""Rows from which oneDNN can be faster than the plain product."""
MIN_PRODUCTS = 900_000
"""Products (rows x in x out) from which it is, since its call takes 12 to 15 µs more."""
MAX_QUERIES = 16
"""Queries of a sentence up to which explicit products are faster than the fused kernel."""

_LAYOUT_ROWS = 64
"""Number of rows that oneDNN's layout is chosen for; any number can be multiplied."""
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
"""Source: mallopt(3), https://man7.org/linux/man-pages/man3/mallopt.3.html"""
MAX_KEPT_BYTES = 2**28
"""Freed memory that the process keeps: what a search with 64 sentences and five hypotheses frees
at its end, 70 to 140 MB, twice."""
MAX_BLOCK_BYTES = 2**25
"""Largest block that is kept, the most that glibc allows."""


def with_fast_layers(model: Transformer) -> Transformer:
    """Return a copy of a model on a CPU, with fast layers; a model on a GPU as it is.

    Weights are shared where their layout stays, so the model must not change afterwards.
    """
    if model.output_proj.weight.device.type != "cpu":
        return model
    shared: dict[int, Any] = {id(each): each for each in (*model.parameters(), *model.buffers())}
    fast = copy.deepcopy(model, shared)
    for parent in fast.modules():  # does not visit what was replaced
        for name, child in parent.named_children():
            if isinstance(child, MultiHeadAttention):
                is_cross = name == "cross_attention"
                setattr(parent, name, FastAttention(child, is_cross=is_cross))
            elif isinstance(child, nn.Linear):
                setattr(parent, name, FastLinear(child.weight, child.bias))
            elif isinstance(child, nn.LayerNorm):
                setattr(parent, name, FastLayerNorm(child))
    # Python finds plain attributes at once, those in a module's dictionaries by a call.
    for module in fast.modules():
        vars(module).update(module._modules | module._parameters | module._buffers)
        module.__class__ = _without_hooks(type(module))
    return fast


def keep_freed_memory() -> None:
    """Make glibc's malloc keep freed memory, since every search needs the same sizes again.

    By default large blocks go back to the system, and page faults then take up to a fifth of the
    time of a beam search. Does nothing with other C libraries.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # not glibc
        return
    mallopt(M_MMAP_THRESHOLD, MAX_BLOCK_BYTES)
    mallopt(M_TRIM_THRESHOLD, MAX_KEPT_BYTES)


def _without_hooks(kind: Any) -> Any:
    """Return a module class whose call is `forward`, without the search for hooks."""
    return type(kind.__name__, (kind,), {"__call__": kind.forward})


class FastLinear(nn.Module):
    """`nn.Linear` that multiplies several rows with oneDNN, and few with the weight as (in, out).

    Tensors are plain attributes, which are found faster than parameters of a module.
    Source: https://uxlfoundation.github.io/oneDNN/dev_guide_matmul.html
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """Lay out a weight (out, in) and share its bias (out,)."""
        super().__init__()
        weight = weight.detach()
        self._weight = weight.t().contiguous().t()  # (out, in), in memory (in, out)
        self._bias = None if bias is None else bias.detach()
        self._packed = _pack(weight) if weight.dtype == torch.float32 and has_onednn() else None
        min_rows = max(MIN_ROWS, math.ceil(MIN_PRODUCTS / weight.numel()))
        self._min_elements = min_rows * weight.shape[1]

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., in) to (..., out)."""
        if self._packed is None or x.numel() < self._min_elements:
            return functional.linear(x, self._weight, self._bias)
        return _multiply(x, self._packed, self._bias)


class FastLayerNorm(nn.Module):
    """`nn.LayerNorm` in one call."""

    def __init__(self, norm: nn.LayerNorm) -> None:
        """Share the weights of a norm."""
        super().__init__()
        self._weights = (norm.normalized_shape, norm.weight.detach(), norm.bias.detach(), norm.eps)

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., D) to (..., D)."""
        return torch.layer_norm(x, *self._weights)


class FastAttention(nn.Module):
    """`MultiHeadAttention` with explicit products for few queries, and scaled weights."""

    def __init__(self, attention: MultiHeadAttention, *, is_cross: bool) -> None:
        """Lay out the weights of a block: cross-attention projects queries and memory apart."""
        super().__init__()
        self.n_heads, d_model = attention.n_heads, attention.d_model
        weight, bias = attention.qkv_proj.weight.detach(), attention.qkv_proj.bias.detach()
        scale = torch.ones_like(bias)
        scale[:d_model] = (d_model // self.n_heads) ** -0.5
        weight, bias = weight * scale[:, None], bias * scale
        if is_cross:
            self._q_proj = FastLinear(weight[:d_model], bias[:d_model])
            self._kv_proj = FastLinear(weight[d_model:], bias[d_model:])
        else:
            self._qkv_proj = FastLinear(weight, bias)
        self._out_proj = FastLinear(attention.out_proj.weight, attention.out_proj.bias)

    def project_all(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Project x (B, N, D) to queries, keys and values, (B, H, N, E) each."""
        q, k, v = self._split_parts(self._qkv_proj(x), 3)  # (B, H, N, E) each
        return q, k, v

    def project_queries(self, x: Tensor) -> Tensor:
        """Project x (B, Q, D) to queries (B, H, Q, E)."""
        q: Tensor = self._q_proj(x)  # (B, Q, D)
        return q.view(*x.shape[:2], self.n_heads, -1).transpose(1, 2)  # (B, H, Q, E)

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Project the encoder output (B, S, D) to keys and values, (B, H, S, E) each."""
        k, v = self._split_parts(self._kv_proj(memory), 2)  # (B, H, S, E) each
        return k.contiguous(), v.contiguous()

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, *, attn_mask: Tensor | None = None, **_: bool
    ) -> tuple[Tensor, None]:
        """Compute attention and the output projection; there are no weights."""
        if q.shape[2] > MAX_QUERIES:
            mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask, scale=1.0)
        else:
            scores = q @ k.transpose(2, 3)  # (B, H, Q, K)
            if attn_mask is not None:
                scores = torch.where(attn_mask, scores, -math.inf)
            mixed = scores.softmax(-1) @ v  # (B, H, Q, E)
        return self._out_proj(mixed.transpose(1, 2).flatten(2)), None  # (B, Q, D)

    def _split_parts(self, x: Tensor, n_parts: int) -> tuple[Tensor, ...]:
        parts = x.view(*x.shape[:2], n_parts, self.n_heads, -1)  # (B, N, parts, H, E)
        return parts.permute(2, 0, 3, 1, 4).unbind()


@functools.cache
def has_onednn() -> bool:
    """Return whether this PyTorch has oneDNN's products, and they are right.

    `torch.compile` emits the same operators, which PyTorch may remove.
    """
    # No random numbers: those of a training run must not depend on what was decoded before.
    weight, x = torch.linspace(-1, 1, 48 * 32).view(48, 32), torch.linspace(0, 1, 96).view(3, 32)
    try:
        return torch.allclose(_multiply(x, _pack(weight), None), x @ weight.t(), atol=1e-4)
    except (AttributeError, RuntimeError, NotImplementedError):
        return False


def _pack(weight: Tensor) -> Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _LAYOUT_ROWS)  # type: ignore[no-any-return]


def _multiply(x: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")  # type: ignore[no-any-return]

"""Weights of encoder and decoder layers as plain matrices, laid out for fast inference.

Matrices are stored as (in, out), which multiplies few rows twice as fast on a CPU. The query
projection includes the factor 1 / sqrt(E), residual sums are fused with the product before them, in
place, and no module is called, since on a small model a call costs as much as its arithmetic.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from hubnmt.model.attention import MultiHeadAttention
from hubnmt.model.feed_forward import FeedForward
from hubnmt.model.layers import DecoderLayer, EncoderLayer, SubLayer

_Part = TypeVar("_Part")


@dataclasses.dataclass(frozen=True, slots=True)
class Affine:
    """x W + b, with W (in, out)."""

    weight: Tensor
    bias: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Map (N, in) to (N, out)."""
        return torch.addmm(self.bias, x, self.weight)

    def write_to(self, out: Tensor, x: Tensor) -> None:
        """Map (N, in) into an existing tensor (N, out), which need not be contiguous."""
        torch.addmm(self.bias, x, self.weight, out=out)

    def add_to(self, stream: Tensor, x: Tensor) -> Tensor:
        """Map x (N, in) and add the result in place to the residual stream (N, out)."""
        return stream.add_(self.bias).addmm_(x, self.weight)


@dataclasses.dataclass(frozen=True, slots=True)
class HalfAffine(Affine):
    """`Affine` in bfloat16 on a CPU, where a single row is multiplied faster by W as (out, in)."""

    by_output: Tensor
    """(out, in)."""

    def __call__(self, x: Tensor) -> Tensor:
        """See `Affine`."""
        if x.shape[0] == 1:
            return torch.addmv(self.bias, self.by_output, x[0])[None]
        return torch.addmm(self.bias, x, self.weight)

    def write_to(self, out: Tensor, x: Tensor) -> None:
        """See `Affine`."""
        if x.shape[0] == 1:
            torch.addmv(self.bias, self.by_output, x[0], out=out[0])
        else:
            torch.addmm(self.bias, x, self.weight, out=out)

    def add_to(self, stream: Tensor, x: Tensor) -> Tensor:
        """See `Affine`."""
        if x.shape[0] == 1:
            stream[0].add_(self.bias).addmv_(self.by_output, x[0])
            return stream
        return stream.add_(self.bias).addmm_(x, self.weight)


@dataclasses.dataclass(frozen=True, slots=True)
class Projection:
    """x W, with W (in, out), or for a single row (out, in) as in `HalfAffine`."""

    weight: Tensor
    by_output: Tensor | None

    def __call__(self, x: Tensor) -> Tensor:
        """Map (..., in) to (..., out)."""
        if self.by_output is not None and x.numel() == x.shape[-1]:
            return torch.mv(self.by_output, x.flatten()).view(*x.shape[:-1], -1)
        return x @ self.weight


@dataclasses.dataclass(frozen=True, slots=True)
class Norm:
    """Layer norm."""

    weight: Tensor
    bias: Tensor
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        """Map (N, D) to (N, D)."""
        return torch.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


@dataclasses.dataclass(frozen=True, slots=True)
class Residual:
    """Residual connection with pre- or post-norm, fused with the block's output projection."""

    norm: Norm
    norm_first: bool
    out: Affine

    def pre_norm(self, x: Tensor) -> Tensor:
        """Return the input of the block, normalized with pre-norm: (N, D) to (N, D)."""
        return self.norm(x) if self.norm_first else x

    def add_residual(self, x: Tensor, inner: Tensor) -> Tensor:
        """Project `inner` (N, in) and add it to x (N, D) in place, then apply post-norm if used."""
        x = self.out.add_to(x, inner)
        return x if self.norm_first else self.norm(x)


@dataclasses.dataclass(frozen=True, slots=True)
class PackedFeedForward:
    """Position-wise feed-forward network with its residual connection."""

    widen: Affine
    activate: Callable[[Tensor], Tensor]
    residual: Residual

    def __call__(self, x: Tensor) -> Tensor:
        """Map (N, D) to (N, D)."""
        return self.residual.add_residual(x, self.activate(self.widen(self.residual.pre_norm(x))))


@dataclasses.dataclass(frozen=True, slots=True)
class PackedEncoderLayer:
    """Weights of an encoder layer."""

    qkv: Affine
    self_residual: Residual
    feed_forward: PackedFeedForward


@dataclasses.dataclass(frozen=True, slots=True)
class PackedDecoderLayer:
    """Weights of a decoder layer."""

    qkv: Affine
    self_residual: Residual
    cross_q: Affine
    cross_kv: Affine
    cross_residual: Residual
    feed_forward: PackedFeedForward


def pack_affine(weight: Tensor, bias: Tensor) -> Affine:
    """Pack a weight (out, in) and its bias (out,)."""
    weight, bias = weight.detach(), bias.detach()
    if _multiplies_rows_by_output(weight):
        return HalfAffine(transpose(weight), bias, weight)
    return Affine(transpose(weight), bias)


def pack_projection(weight: Tensor) -> Projection:
    """Pack a weight (out, in) without bias."""
    weight = weight.detach()
    return Projection(transpose(weight), weight if _multiplies_rows_by_output(weight) else None)


def _multiplies_rows_by_output(weight: Tensor) -> bool:
    return weight.dtype == torch.bfloat16 and weight.device.type == "cpu"


def map_products(part: _Part, change: Callable[[Any], Any]) -> _Part:
    """Return a packed layer with each `Affine` and `Projection` replaced."""
    if isinstance(part, (Affine, Projection)):
        return change(part)  # type: ignore[no-any-return]
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        values = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
        changed = {name: map_products(value, change) for name, value in values.items()}
        return dataclasses.replace(part, **changed)
    return part


def transpose(weight: Tensor) -> Tensor:
    """Store (out, in) as (in, out)."""
    return weight.detach().t().contiguous()


def pack_encoder_layer(layer: EncoderLayer) -> PackedEncoderLayer:
    """Copy an encoder layer's weights."""
    return PackedEncoderLayer(
        qkv=_pack_queries(layer.self_attention, 3),
        self_residual=_pack_residual(layer.frame_self, layer.self_attention.out_proj),
        feed_forward=_pack_feed_forward(layer.feed_forward, layer.frame_ff),
    )


def pack_decoder_layer(layer: DecoderLayer) -> PackedDecoderLayer:
    """Copy a decoder layer's weights."""
    cross = layer.cross_attention
    weight, bias = cross.qkv_proj.weight, cross.qkv_proj.bias
    return PackedDecoderLayer(
        qkv=_pack_queries(layer.self_attention, 3),
        self_residual=_pack_residual(layer.frame_self, layer.self_attention.out_proj),
        cross_q=_pack_queries(cross, 1),
        cross_kv=pack_affine(weight[cross.d_model :], bias[cross.d_model :]),
        cross_residual=_pack_residual(layer.frame_cross, cross.out_proj),
        feed_forward=_pack_feed_forward(layer.feed_forward, layer.frame_ff),
    )


def _pack_queries(attention: MultiHeadAttention, n_parts: int) -> Affine:
    """Pack the first `n_parts` thirds of the QKV projection, with the queries scaled."""
    d_model = attention.d_model
    weight = attention.qkv_proj.weight[: n_parts * d_model].detach().clone()
    bias = attention.qkv_proj.bias[: n_parts * d_model].detach().clone()
    for part in (weight, bias):
        part[:d_model] /= math.sqrt(d_model // attention.n_heads)
    return pack_affine(weight, bias)


def _pack_residual(sublayer: SubLayer, out: nn.Linear) -> Residual:
    return Residual(
        _pack_norm(sublayer.norm), sublayer.norm_first, pack_affine(out.weight, out.bias)
    )


def _pack_feed_forward(block: FeedForward, sublayer: SubLayer) -> PackedFeedForward:
    activate = torch.relu_ if isinstance(block.activate, nn.ReLU) else functional.gelu
    widen = pack_affine(block.widen.weight, block.widen.bias)
    return PackedFeedForward(widen, activate, _pack_residual(sublayer, block.narrow))


def _pack_norm(norm: nn.LayerNorm) -> Norm:
    return Norm(norm.weight.detach(), norm.bias.detach(), norm.eps)


def pack_final_norm(norm: nn.Module) -> Callable[[Tensor], Tensor]:
    """Pack a layer norm; return any other module unchanged."""
    return _pack_norm(norm) if isinstance(norm, nn.LayerNorm) else norm

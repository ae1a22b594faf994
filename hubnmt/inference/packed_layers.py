"""The layers of a Transformer as plain matrices, laid out for translating fast.

Takes the modules of `layers`, gives their weights as small callable values. Must not know batches,
caches or search. What can be done once is done here: matrices are stored (in, out), which few rows
multiply twice as fast on a CPU; 1 / sqrt(E) is part of the query projection; a residual sum and the
product that feeds it are one operation, in place; and no module is called, since on a small model a
call costs as much as its arithmetic.
"""

import dataclasses
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from hubnmt.model.attention import MultiHeadAttention
from hubnmt.model.feed_forward import FeedForward
from hubnmt.model.layers import DecoderLayer, EncoderLayer, SubLayer


@dataclasses.dataclass(frozen=True, slots=True)
class Affine:
    """x W + b, with W (in, out)."""

    weight: Tensor
    bias: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Map (N, in) to (N, out)."""
        return torch.addmm(self.bias, x, self.weight)

    def write_to(self, place: Tensor, x: Tensor) -> None:
        """Map (N, in) to a place (N, out), whose rows may lie apart."""
        torch.addmm(self.bias, x, self.weight, out=place)

    def add_to(self, stream: Tensor, x: Tensor) -> Tensor:
        """Add what x (N, in) is mapped to, in place, to the stream (N, out)."""
        return stream.add_(self.bias).addmm_(x, self.weight)


@dataclasses.dataclass(frozen=True, slots=True)
class HalfAffine(Affine):
    """The same in bfloat16, which is faster on a CPU if a single row meets W as (out, in)."""

    by_output: Tensor
    """(out, in)."""

    def __call__(self, x: Tensor) -> Tensor:
        """See `Affine`."""
        if len(x) == 1:
            return torch.addmv(self.bias, self.by_output, x[0])[None]
        return torch.addmm(self.bias, x, self.weight)

    def write_to(self, place: Tensor, x: Tensor) -> None:
        """See `Affine`."""
        if len(x) == 1:
            torch.addmv(self.bias, self.by_output, x[0], out=place[0])
        else:
            torch.addmm(self.bias, x, self.weight, out=place)

    def add_to(self, stream: Tensor, x: Tensor) -> Tensor:
        """See `Affine`."""
        if len(x) == 1:
            stream[0].add_(self.bias).addmv_(self.by_output, x[0])
            return stream
        return stream.add_(self.bias).addmm_(x, self.weight)


@dataclasses.dataclass(frozen=True, slots=True)
class Projection:
    """x W, with W (in, out), and for single rows as in `HalfAffine`."""

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
class Frame:
    """The frame around a block, and the block's last projection, which ends in the residual sum."""

    norm: Norm
    norm_first: bool
    out: Affine

    def enter(self, x: Tensor) -> Tensor:
        """Give what the block works on: (N, D) to (N, D)."""
        return self.norm(x) if self.norm_first else x

    def leave(self, x: Tensor, inner: Tensor) -> Tensor:
        """Add the projected `inner` (N, in) to the stream x (N, D), which is overwritten."""
        x = self.out.add_to(x, inner)
        return x if self.norm_first else self.norm(x)


@dataclasses.dataclass(frozen=True, slots=True)
class PackedFeedForward:
    """The position-wise network in its frame."""

    widen: Affine
    activate: Callable[[Tensor], Tensor]
    frame: Frame

    def __call__(self, x: Tensor) -> Tensor:
        """Map (N, D) to (N, D)."""
        return self.frame.leave(x, self.activate(self.widen(self.frame.enter(x))))


@dataclasses.dataclass(frozen=True, slots=True)
class PackedEncoderLayer:
    """An encoder layer."""

    qkv: Affine
    self_frame: Frame
    feed_forward: PackedFeedForward


@dataclasses.dataclass(frozen=True, slots=True)
class PackedDecoderLayer:
    """A decoder layer."""

    qkv: Affine
    self_frame: Frame
    cross_q: Affine
    cross_kv: Affine
    cross_frame: Frame
    feed_forward: PackedFeedForward


def pack_affine(weight: Tensor, bias: Tensor) -> Affine:
    """Take a weight (out, in) and its bias (out,)."""
    weight, bias = weight.detach(), bias.detach()
    if _multiplies_rows_by_output(weight):
        return HalfAffine(transpose(weight), bias, weight)
    return Affine(transpose(weight), bias)


def pack_projection(weight: Tensor) -> Projection:
    """Take a weight (out, in)."""
    weight = weight.detach()
    return Projection(transpose(weight), weight if _multiplies_rows_by_output(weight) else None)


def _multiplies_rows_by_output(weight: Tensor) -> bool:
    return weight.dtype == torch.bfloat16 and weight.device.type == "cpu"


def transpose(weight: Tensor) -> Tensor:
    """Store (out, in) as (in, out)."""
    return weight.detach().t().contiguous()


def pack_encoder_layer(layer: EncoderLayer) -> PackedEncoderLayer:
    """Copy an encoder layer's weights."""
    return PackedEncoderLayer(
        qkv=_pack_queries(layer.self_attention, 3),
        self_frame=_pack_frame(layer.frame_self, layer.self_attention.out_proj),
        feed_forward=_pack_feed_forward(layer.feed_forward, layer.frame_ff),
    )


def pack_decoder_layer(layer: DecoderLayer) -> PackedDecoderLayer:
    """Copy a decoder layer's weights."""
    cross = layer.cross_attention
    weight, bias = cross.qkv_proj.weight, cross.qkv_proj.bias
    return PackedDecoderLayer(
        qkv=_pack_queries(layer.self_attention, 3),
        self_frame=_pack_frame(layer.frame_self, layer.self_attention.out_proj),
        cross_q=_pack_queries(cross, 1),
        cross_kv=pack_affine(weight[cross.d_model :], bias[cross.d_model :]),
        cross_frame=_pack_frame(layer.frame_cross, cross.out_proj),
        feed_forward=_pack_feed_forward(layer.feed_forward, layer.frame_ff),
    )


def _pack_queries(attention: MultiHeadAttention, n_parts: int) -> Affine:
    """Take the first parts of the packed projection; the queries' part gets the scale."""
    d_model = attention.d_model
    weight = attention.qkv_proj.weight[: n_parts * d_model].detach().clone()
    bias = attention.qkv_proj.bias[: n_parts * d_model].detach().clone()
    for part in (weight, bias):
        part[:d_model] /= math.sqrt(d_model // attention.n_heads)
    return pack_affine(weight, bias)


def _pack_frame(frame: SubLayer, out: nn.Linear) -> Frame:
    return Frame(_pack_norm(frame.norm), frame.norm_first, pack_affine(out.weight, out.bias))


def _pack_feed_forward(block: FeedForward, frame: SubLayer) -> PackedFeedForward:
    activate = torch.relu_ if isinstance(block.activate, nn.ReLU) else functional.gelu
    widen = pack_affine(block.widen.weight, block.widen.bias)
    return PackedFeedForward(widen, activate, _pack_frame(frame, block.narrow))


def _pack_norm(norm: nn.LayerNorm) -> Norm:
    return Norm(norm.weight.detach(), norm.bias.detach(), norm.eps)


def pack_final_norm(norm: nn.Module) -> Callable[[Tensor], Tensor]:
    """Take a norm as it is packed, and anything else as it is."""
    return _pack_norm(norm) if isinstance(norm, nn.LayerNorm) else norm

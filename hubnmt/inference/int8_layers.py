"""Matrix products in 8 bits on a CPU, for the layers of `packed_layers`.

Weights have one scale per row, as in an 8-bit model folder, and activations one per call. The
products are those of FBGEMM and oneDNN behind one operator, which PyTorch may remove:
`is_available` says whether it is there. Which products are worth it was measured, see
tests/benchmarks/RESULTS.md. Source: https://github.com/pytorch/FBGEMM
"""

import contextlib
import dataclasses
import functools
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from hubnmt.checkpoint.quantization import quantize_rows
from hubnmt.inference.cpu import has_vnni
from hubnmt.inference.packed_layers import Affine, Projection

MIN_PRODUCTS_VNNI = 2**18
"""Products (rows x in x out) from which 8 bits are faster than float32 in spite of the quantisation
of the activations, on a CPU with VNNI."""
MIN_PRODUCTS = 2**19
"""The same on other CPUs."""

MIN_ROWS_ONEDNN = 64
"""Rows from which oneDNN multiplies faster with the vocabulary than FBGEMM, which writes the sums
of products to memory before it scales them; up to twice as fast for 320 rows."""
MIN_ROWS_ONEDNN_LAYER = 256
"""The same for products of a layer with more outputs than inputs, by a tenth to a fifth."""


@dataclasses.dataclass(frozen=True, slots=True)
class Int8Weight:
    """A weight and its bias in 8 bits."""

    packed: Any
    """In FBGEMM's layout."""
    packed_onednn: Any
    """In oneDNN's layout, for many rows; None where FBGEMM multiplies any number."""
    min_numbers: int
    """Numbers of x (..., in) from which the product is faster than in float32."""
    min_numbers_onednn: int
    """Numbers of x from which it is faster with oneDNN."""
    is_vnni: bool

    def multiply(self, x: Tensor) -> Tensor:
        """Map (..., in) to (..., out)."""
        packed = self.packed
        if self.packed_onednn is not None and x.numel() >= self.min_numbers_onednn:
            packed = self.packed_onednn
        return _multiply(x, packed, is_vnni=self.is_vnni)


@dataclasses.dataclass(frozen=True, slots=True)
class Int8Affine(Affine):
    """`Affine` in 8 bits, in float32 for few rows."""

    int8: Int8Weight

    def __call__(self, x: Tensor) -> Tensor:
        """See `Affine`."""
        if x.numel() < self.int8.min_numbers:
            return torch.addmm(self.bias, x, self.weight)
        return self.int8.multiply(x)

    def write_to(self, out: Tensor, x: Tensor) -> None:
        """See `Affine`."""
        if x.numel() < self.int8.min_numbers:
            torch.addmm(self.bias, x, self.weight, out=out)
        else:
            out.copy_(self.int8.multiply(x))

    def add_to(self, stream: Tensor, x: Tensor) -> Tensor:
        """See `Affine`."""
        if x.numel() < self.int8.min_numbers:
            return stream.add_(self.bias).addmm_(x, self.weight)
        return stream.add_(self.int8.multiply(x))


@dataclasses.dataclass(frozen=True, slots=True)
class Int8Projection(Projection):
    """`Projection` in 8 bits, in float32 for few rows."""

    int8: Int8Weight

    def __call__(self, x: Tensor) -> Tensor:
        """See `Projection`."""
        return x @ self.weight if x.numel() < self.int8.min_numbers else self.int8.multiply(x)


@functools.cache
def is_available() -> bool:
    """Return whether this PyTorch has the products."""
    try:
        _multiply(torch.ones(1, 8), _pack(torch.ones(8, 8), None), is_vnni=False)
    except (AttributeError, RuntimeError, NotImplementedError):
        return False
    return True


def pack_int8(part: Affine | Projection) -> Affine | Projection:
    """Return a packed product in 8 bits."""
    is_vnni, weight = has_vnni(), part.weight.t()
    n_out, n_in = weight.shape
    bias = part.bias if isinstance(part, Affine) else None
    int8 = Int8Weight(
        packed=_pack(weight, bias),
        packed_onednn=_pack(weight, bias, "onednn") if is_vnni and n_out > n_in else None,
        min_numbers=(MIN_PRODUCTS_VNNI if is_vnni else MIN_PRODUCTS) // n_out,
        min_numbers_onednn=n_in * (MIN_ROWS_ONEDNN if bias is None else MIN_ROWS_ONEDNN_LAYER),
        is_vnni=is_vnni,
    )
    if isinstance(part, Projection):
        return Int8Projection(part.weight, None, int8)
    return Int8Affine(part.weight, part.bias, int8)


def _multiply(x: Tensor, packed: Any, *, is_vnni: bool) -> Tensor:
    # Without VNNI the CPU adds pairs of products in 16 bits, and sums of 8-bit products saturate,
    # so that activations must have 7 bits.
    return torch.ops.quantized.linear_dynamic(x, packed, not is_vnni)  # type: ignore[no-any-return]


def _pack(weight: Tensor, bias: Tensor | None, engine: str | None = None) -> Any:
    """Quantise a weight (out, in) and bring it into the layout of PyTorch's engine for it."""
    levels, scales = quantize_rows(weight)
    zeros = torch.zeros(len(scales), dtype=torch.int64)
    with warnings.catch_warnings(), _selected(engine):
        warnings.simplefilter("ignore")  # announces that quantised tensors may be removed
        quantized = torch._make_per_channel_quantized_tensor(levels, scales.double(), zeros, 0)
        return torch.ops.quantized.linear_prepack(quantized, bias)


@contextlib.contextmanager
def _selected(engine: str | None) -> Iterator[None]:
    """Select the engine that quantised weights are packed for; None leaves it as it is."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = engine or before
    try:
        yield
    finally:
        torch.backends.quantized.engine = before

"""Matrix products in 8 bits on a CPU, for the layers of `packed_layers`.

Weights have one scale per row, as in an 8-bit model folder, and activations one per call. The
products are those of FBGEMM, which PyTorch may remove: `is_available` says whether they are there.
Source: https://github.com/pytorch/FBGEMM
"""

import dataclasses
import functools
import warnings
from typing import Any

import torch
from torch import Tensor

from hubnmt.checkpoint.quantization import quantize_rows
from hubnmt.inference.packed_layers import Affine, Projection

MIN_PRODUCTS = 2**19
"""Products (rows x in x out) from which 8 bits are faster than float32 in spite of the quantisation
of the activations; see tests/benchmarks/RESULTS.md."""


@dataclasses.dataclass(frozen=True, slots=True)
class Int8Affine(Affine):
    """`Affine` in 8 bits, in float32 for few rows."""

    packed: Any
    """Weight and bias in FBGEMM's layout."""

    def __call__(self, x: Tensor) -> Tensor:
        """See `Affine`."""
        if x.shape[0] * self.weight.numel() < MIN_PRODUCTS:
            return torch.addmm(self.bias, x, self.weight)
        return _multiply(x, self.packed)

    def write_to(self, out: Tensor, x: Tensor) -> None:
        """See `Affine`."""
        out.copy_(self(x))

    def add_to(self, stream: Tensor, x: Tensor) -> Tensor:
        """See `Affine`."""
        return stream.add_(self(x))


@dataclasses.dataclass(frozen=True, slots=True)
class Int8Projection(Projection):
    """`Projection` in 8 bits, in float32 for few rows."""

    packed: Any

    def __call__(self, x: Tensor) -> Tensor:
        """See `Projection`."""
        if x.numel() * self.weight.shape[1] < MIN_PRODUCTS:
            return x @ self.weight
        return _multiply(x, self.packed)


@functools.cache
def is_available() -> bool:
    """Return whether this PyTorch has the products."""
    try:
        _multiply(torch.ones(1, 8), _pack(torch.ones(8, 8), None))
    except (AttributeError, RuntimeError, NotImplementedError):
        return False
    return True


def pack_int8(part: Affine | Projection) -> Affine | Projection:
    """Return a packed product in 8 bits."""
    if isinstance(part, Projection):
        return Int8Projection(part.weight, None, _pack(part.weight.t(), None))
    return Int8Affine(part.weight, part.bias, _pack(part.weight.t(), part.bias))


def _pack(weight: Tensor, bias: Tensor | None) -> Any:
    """Quantise a weight (out, in) and bring it into FBGEMM's layout."""
    levels, scales = quantize_rows(weight)
    zeros = torch.zeros(len(scales), dtype=torch.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # announces that quantised tensors may be removed
        quantized = torch._make_per_channel_quantized_tensor(levels, scales.double(), zeros, 0)
        return torch.ops.quantized.linear_prepack(quantized, bias)


def _multiply(x: Tensor, packed: Any) -> Tensor:
    return torch.ops.quantized.linear_dynamic(x, packed, _reduces_range())  # type: ignore[no-any-return]


@functools.cache
def _reduces_range() -> bool:
    """Return whether activations must have 7 bits, since sums of 8-bit products saturate.

    Without VNNI the CPU adds pairs of products in 16 bits.
    """
    capabilities = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return not (capabilities.get("avx512_vnni") or capabilities.get("avx_vnni"))

"""Float32 matrix products of oneDNN with weights in its own layout, where they are faster than MKL.

`torch.compile` emits the same operators, which PyTorch may remove: `is_available` says whether they
are there. Which products are worth it was measured, see tests/benchmarks/RESULTS.md. Source:
https://uxlfoundation.github.io/oneDNN/dev_guide_matmul.html
"""

import dataclasses
import functools
import math

import torch
from torch import Tensor

from hubnmt.inference.cpu import is_amd_avx512
from hubnmt.inference.packed_layers import Affine, Projection

MIN_ROWS_OUTPUT = 2
"""Rows from which the product with the vocabulary is faster, up to three times."""
MIN_ROWS_LAYER = 4
"""Rows from which the products of the layers are faster, where MKL runs at half speed."""
MIN_PRODUCTS_LAYER = 900_000
"""Products (rows x in x out) from which they are faster in spite of a call that takes 12 to 15 µs
more."""

_LAYOUT_ROWS = 64
"""Number of rows that the layout is chosen for; any number can be multiplied."""


@dataclasses.dataclass(frozen=True, slots=True)
class OneDnnAffine(Affine):
    """`Affine` that multiplies several rows with oneDNN."""

    packed: Tensor
    """(out, in) in oneDNN's layout."""
    min_rows: int
    """Rows from which oneDNN is faster."""

    def __call__(self, x: Tensor) -> Tensor:
        """See `Affine`."""
        if x.shape[0] < self.min_rows:
            return torch.addmm(self.bias, x, self.weight)
        return _multiply(x, self.packed, self.bias)

    def write_to(self, out: Tensor, x: Tensor) -> None:
        """See `Affine`."""
        if x.shape[0] < self.min_rows:
            torch.addmm(self.bias, x, self.weight, out=out)
        else:
            out.copy_(_multiply(x, self.packed, self.bias))

    def add_to(self, stream: Tensor, x: Tensor) -> Tensor:
        """See `Affine`."""
        if x.shape[0] < self.min_rows:
            return stream.add_(self.bias).addmm_(x, self.weight)
        return stream.add_(_multiply(x, self.packed, self.bias))


@dataclasses.dataclass(frozen=True, slots=True)
class OneDnnProjection(Projection):
    """`Projection` that multiplies several rows with oneDNN."""

    packed: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """See `Projection`."""
        if x.numel() < MIN_ROWS_OUTPUT * x.shape[-1]:
            return x @ self.weight
        return _multiply(x, self.packed, None)


@functools.cache
def is_available() -> bool:
    """Return whether this PyTorch has the products, and they are right."""
    # No random numbers: those of a training run must not depend on what was decoded before.
    weight, x = torch.linspace(-1, 1, 48 * 32).view(48, 32), torch.linspace(0, 1, 96).view(3, 32)
    try:
        return torch.allclose(_multiply(x, _pack(weight), None), x @ weight.t(), atol=1e-4)
    except (AttributeError, RuntimeError, NotImplementedError):
        return False


def pack_onednn(part: Affine | Projection) -> Affine | Projection:
    """Return a packed product in float32 on a CPU in oneDNN's layout, or as it is."""
    if part.weight.dtype != torch.float32 or part.weight.device.type != "cpu" or not is_available():
        return part
    if isinstance(part, Projection):
        return OneDnnProjection(part.weight, None, _pack(part.weight.t()))
    if not is_amd_avx512():
        return part
    min_rows = max(MIN_ROWS_LAYER, math.ceil(MIN_PRODUCTS_LAYER / part.weight.numel()))
    return OneDnnAffine(part.weight, part.bias, _pack(part.weight.t()), min_rows)


def _pack(weight: Tensor) -> Tensor:
    """Bring a weight (out, in) into oneDNN's layout."""
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _LAYOUT_ROWS)  # type: ignore[no-any-return]


def _multiply(x: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")  # type: ignore[no-any-return]

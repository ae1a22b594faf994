"""Weight matrices in 8 bits with one scale per row, for model folders of half the size of float16.

Symmetric quantisation: q = round(w / s) with s = max |w| / 127 of the row. In the folder a matrix
`name` is an int8 tensor, and `name.scale` its float32 scales; vectors stay in float32. Source: Wu
et al. 2020, "Integer quantization for deep learning inference", sections 3.1.2 and 3.2
(https://arxiv.org/abs/2004.09602).
"""

import torch
from torch import Tensor

SCALE_SUFFIX = ".scale"
"""Appended to a matrix's name for its scales."""

_MAX_LEVEL = 127


def quantize_rows(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Quantise a matrix (R, C) to int8 (R, C) and float32 scales (R,)."""
    scales = weight.float().abs().amax(1) / _MAX_LEVEL
    levels = weight.float() / scales.clamp(min=torch.finfo(torch.float32).tiny)[:, None]
    return levels.round().clamp(-_MAX_LEVEL, _MAX_LEVEL).to(torch.int8), scales


def dequantize_rows(levels: Tensor, scales: Tensor) -> Tensor:
    """Return the float32 matrix (R, C) of int8 levels (R, C) and scales (R,)."""
    return levels.float() * scales[:, None]


def quantize_tensors(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return all tensors of a model in the format of an 8-bit folder."""
    stored = {}
    for name, tensor in tensors.items():
        if tensor.ndim == 2:
            stored[name], stored[name + SCALE_SUFFIX] = quantize_rows(tensor)
        else:
            stored[name] = tensor.float()
    return stored

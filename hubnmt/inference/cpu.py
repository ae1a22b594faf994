"""CPU features that decide which data type and which matrix products are fastest.

Source: https://docs.pytorch.org/docs/main/generated/torch.cpu.get_capabilities.html
"""

from collections.abc import Mapping
from typing import Any

import torch


def has_amx_bf16() -> bool:
    """Return whether the CPU has AMX for bfloat16."""
    return bool(_capabilities().get("amx_bf16"))


def has_vnni() -> bool:
    """Return whether the CPU multiplies 8-bit numbers and sums them in 32 bits."""
    found = _capabilities()
    return bool(found.get("avx512_vnni") or found.get("avx_vnni"))


def is_amd_avx512() -> bool:
    """Return whether it is an AMD CPU with AVX-512, for which MKL does not use its best kernels."""
    found = _capabilities()
    return "AMD" in str(found.get("cpu_name")) and bool(found.get("avx512_f"))


def is_amd_bf16() -> bool:
    """Return whether it is an AMD CPU with AVX-512 instructions for bfloat16 (Zen 4 or later)."""
    return is_amd_avx512() and bool(_capabilities().get("avx512_bf16"))


def _capabilities() -> Mapping[str, Any]:
    """Return the features by name; empty if PyTorch is too old to report them."""
    return torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}

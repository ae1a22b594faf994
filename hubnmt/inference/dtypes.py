"""Data types for inference and training, resolution of `auto`, and conversion of a model."""

import copy
from collections.abc import Mapping
from typing import Any

import torch

from hubnmt.config import DTYPE_NAMES, ModelConfig
from hubnmt.errors import ConfigError
from hubnmt.model.transformer import Transformer

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
AUTO = "auto"
"""The faster of `float32` and `bfloat16`; translations may differ slightly between the two."""
INT8 = "int8"
"""8 bits, which only CTranslate2 computes in; weights stored in 8 bits load as any other type."""

WIDE = 512
"""`d_model` from which bfloat16 is faster on a CPU for single sentences as well as batches. At 256
batches are 1.5 times as fast, single sentences no faster. See tests/benchmarks/RESULTS.md."""


def check_dtype(name: str) -> None:
    """Check that a data type is known.

    Raises:
        ConfigError: if it is not; the message lists the known types.
    """
    if name not in DTYPE_NAMES:
        raise ConfigError(f"dtype = {name!r} must be {' or '.join(DTYPE_NAMES)}")


def resolve_dtype(name: str, device: torch.device, config: ModelConfig) -> str:
    """Resolve `auto` to the faster data type for inference; return other names unchanged.

    On a GPU that is bfloat16 if the hardware supports it. On a CPU bfloat16 is faster only with AMX
    and a wide model.
    """
    if name != AUTO:
        return name
    if device.type == "cuda":
        is_faster = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        is_faster = config.d_model >= WIDE and bool(_cpu_features().get("amx_bf16"))
    return "bfloat16" if is_faster else "float32"


def resolve_training_dtype(name: str, device: torch.device) -> str:
    """Resolve `auto` to the fastest data type for training; return other names unchanged.

    On a GPU that is bfloat16 if the hardware has it. On a CPU it is bfloat16 with AMX, and with
    AVX-512 instructions on AMD, where a step takes 0.4 times as long as in float32; on Intel it
    took 1.5 times as long (training/RUNS.md, "Speed of a step"). See tests/benchmarks/RESULTS.md.
    """
    if name != AUTO:
        return name
    if device.type == "cuda":
        has_bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
        return "bfloat16" if has_bf16 else "float32"
    cpu = _cpu_features()
    is_amd_bf16 = "AMD" in str(cpu.get("cpu_name")) and cpu.get("avx512_bf16")
    return "bfloat16" if cpu.get("amx_bf16") or is_amd_bf16 else "float32"


def _cpu_features() -> Mapping[str, Any]:
    return torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}


def get_device(name: str) -> torch.device:
    """Return a device after checking that tensors can be placed on it.

    `auto` is `cuda` where there is one, else `cpu`.

    Raises:
        ConfigError: if the device is unknown or not available.
    """
    if name == AUTO:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        first = str(error).splitlines()[0]
        raise ConfigError(f"device = {name!r} cannot be used ({first}); try 'cpu'") from None
    return device


def convert(model: Transformer, device: torch.device, dtype: torch.dtype) -> Transformer:
    """Copy a model in eval mode; tensors already on the device in that dtype are shared."""
    tensors: dict[int, Any] = {
        id(each): torch.nn.Parameter(each.detach().to(device, dtype), each.requires_grad)
        for each in model.parameters()
    }
    tensors |= {id(each): each.to(device, dtype) for each in model.buffers()}
    return copy.deepcopy(model, tensors).eval()

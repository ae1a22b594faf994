"""The type of number that a model runs in.

Takes what was asked for, where the model runs and its shape, gives a torch type. Must not know
weights or engines.
"""

import torch

from hubnmt.config import ModelConfig
from hubnmt.errors import ConfigError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
AUTO = "auto"
"""Whichever of `float32` and `bfloat16` is faster; the text may differ in a word or two."""
CT2_DTYPE = "int8"
"""What CTranslate2 can do beside `DTYPES`."""

WIDE = 512
"""Features from which bfloat16 pays on a CPU for one sentence as for many; at 256 it makes batches
1.5 times as fast, but a single sentence no faster. See tests/benchmarks/RESULTS.md."""


def check_dtype(name: str, *, engine: str) -> None:
    """Refuse what an engine cannot do.

    Raises:
        ConfigError: naming what it can.
    """
    known = sorted({*DTYPES, AUTO, *([CT2_DTYPE] if engine == "ctranslate2" else [])})
    if name not in known:
        raise ConfigError(f"dtype = {name!r} must be {' or '.join(known)} with {engine}")


def resolve_dtype(name: str, device: torch.device, config: ModelConfig) -> str:
    """Turn `auto` into the type that is faster there; anything else stays.

    On a GPU that is bfloat16 where the hardware has it. On a CPU it takes units that multiply
    bfloat16 matrices (AMX) and a wide model. Source:
    https://docs.pytorch.org/docs/main/generated/torch.cpu.get_capabilities.html
    """
    if name != AUTO:
        return name
    if device.type == "cuda":
        pays = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        pays = config.d_model >= WIDE and _has_matrix_units()
    return "bfloat16" if pays else "float32"


def resolve_training_dtype(name: str, device: torch.device) -> str:
    """Turn `auto` into the type whose matrix products a training run does fastest; others stay.

    On a GPU bfloat16, or float16 where the hardware has no bfloat16. On a CPU bfloat16 takes AMX:
    AVX-512 has instructions for it too, but with those alone a step took 1.5 times as long as in
    float32 (training/RUNS.md, "Speed of a step").
    """
    if name != AUTO:
        return name
    if device.type == "cuda":
        has_it = torch.cuda.is_bf16_supported(including_emulation=False)
        return "bfloat16" if has_it else "float16"
    return "bfloat16" if _has_matrix_units() else "float32"


def _has_matrix_units() -> bool:
    """Say whether the CPU has AMX for bfloat16; older releases of PyTorch cannot tell."""
    if not hasattr(torch.cpu, "get_capabilities"):
        return False
    return bool(torch.cpu.get_capabilities().get("amx_bf16"))

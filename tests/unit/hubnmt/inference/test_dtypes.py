"""The type of number that a model runs in."""

import pytest
import torch

from hubnmt import Translator
from hubnmt.errors import ConfigError
from hubnmt.inference.dtypes import AUTO, WIDE, check_dtype, resolve_dtype, resolve_training_dtype
from tests.models import make_config

CPU = torch.device("cpu")
INTEL_AMX = {"cpu_name": "Intel Xeon", "avx512_f": True, "avx512_bf16": True, "amx_bf16": True}
INTEL_AVX512 = {"cpu_name": "Intel Xeon", "avx512_f": True, "avx512_bf16": True}
AMD_ZEN_4 = {"cpu_name": "AMD EPYC", "avx512_f": True, "avx512_bf16": True}
AMD_ZEN_3 = {"cpu_name": "AMD EPYC", "avx2": True}


@pytest.mark.parametrize(
    ("d_model", "capabilities", "expected", "in_training"),
    [
        (WIDE, INTEL_AMX, "bfloat16", "bfloat16"),
        (WIDE - 128, INTEL_AMX, "float32", "bfloat16"),
        (WIDE, INTEL_AVX512, "float32", "float32"),
        (WIDE, AMD_ZEN_4, "float32", "bfloat16"),
        (WIDE, AMD_ZEN_3, "float32", "float32"),
    ],
)
def test_the_fastest_type_on_a_cpu(
    d_model: int,
    capabilities: dict[str, object],
    expected: str,
    in_training: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    assert resolve_dtype(AUTO, CPU, make_config(d_model=d_model, n_heads=4)) == expected
    assert resolve_training_dtype(AUTO, CPU) == in_training


@pytest.mark.parametrize(("has_it", "expected"), [(True, "bfloat16"), (False, "float32")])
def test_the_fastest_type_on_a_gpu(
    has_it: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: has_it)
    assert resolve_dtype(AUTO, torch.device("cuda"), make_config()) == expected
    assert resolve_training_dtype(AUTO, torch.device("cuda")) == expected


def test_an_unknown_type_is_refused() -> None:
    check_dtype("int8")
    with pytest.raises(ConfigError, match=r"'int4' must be auto or bfloat16 or "):
        check_dtype("int4")


def test_8_bits_without_ctranslate2_name_the_engine() -> None:
    with pytest.raises(ConfigError, match=r"^dtype = 'int8' needs engine = 'ctranslate2' .*$"):
        Translator.from_pretrained("de-en-multi30k", dtype="int8")

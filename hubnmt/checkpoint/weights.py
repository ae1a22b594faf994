"""Read and write the weights of a model folder, checked against its config before allocation.

In a folder of 8-bit weights a matrix `name` is an int8 tensor with float32 scales `name.scale`, one
per row; vectors stay in float32. Symmetric quantisation: q = round(w / s) with s = max |w| / 127 of
the row. Source: Wu et al. 2020, "Integer quantization for deep learning inference", sections 3.1.2
and 3.2 (https://arxiv.org/abs/2004.09602).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from hubnmt.errors import ModelFolderError, first_few, shorten
from hubnmt.model import Transformer
from hubnmt.model.transformer import rename_weights

FLOAT_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""Supported weight types by their name in safetensors."""

INT8, SCALE_SUFFIX, MAX_LEVEL = "I8", ".scale", 127


def own_tensors(model: Transformer) -> dict[str, Tensor]:
    """Return the weights by name; tied ones only under their first name."""
    return dict(model.named_parameters(remove_duplicate=True))


def to_stored(tensors: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """Convert weights to the dtype of the folder, or to their own if that is narrower."""
    stored = {}
    for name, weight in tensors.items():
        tensor = weight.detach().cpu()
        if dtype is not torch.int8:
            stored[name] = tensor.to(min(dtype, tensor.dtype, key=lambda kind: kind.itemsize))
        elif tensor.ndim == 2:
            stored[name], stored[name + SCALE_SUFFIX] = quantize_rows(tensor)
        else:
            stored[name] = tensor.float()
    return {name: tensor.contiguous() for name, tensor in stored.items()}


def quantize_rows(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Quantise a matrix (R, C) to int8 (R, C) and float32 scales (R,)."""
    scales = weight.float().abs().amax(1) / MAX_LEVEL
    levels = weight.float() / scales.clamp(min=torch.finfo(torch.float32).tiny)[:, None]
    return levels.round().clamp(-MAX_LEVEL, MAX_LEVEL).to(torch.int8), scales


def check_weights(model: Transformer, path: Path) -> torch.dtype:
    """Check that names and shapes in a safetensors header match a model exactly.

    Returns:
        the dtype of the stored weights, the widest if they differ; int8 for 8-bit matrices.

    Raises:
        ModelFolderError: listing missing and unknown tensors and wrong shapes.
    """
    with _open_weights(path) as file:
        headers = rename_weights({name: file.get_slice(name) for name in file.keys()})  # noqa: SIM118
        _check_headers(headers, own_tensors(model), path)
        found = {header.get_dtype() for header in headers.values()}
    if INT8 in found:
        return torch.int8
    return max((FLOAT_DTYPES[name] for name in found), key=lambda dtype: dtype.itemsize)


def load_weights(model: Transformer, path: Path) -> None:
    """Load a safetensors file into a model, after `check_weights`.

    Raises:
        ModelFolderError: naming tensors with NaN or infinite values.
    """
    weights = own_tensors(model)
    with _open_weights(path) as file, torch.no_grad():
        stored_name = rename_weights({name: name for name in file.keys()})  # noqa: SIM118
        for name, parameter in weights.items():
            tensor = file.get_tensor(stored_name[name])
            if tensor.dtype is torch.int8:
                scales = file.get_tensor(stored_name[name + SCALE_SUFFIX])  # (R,)
                tensor = tensor.float() * scales[:, None]  # (R, C)
            parameter.copy_(tensor)
    non_finite = [name for name, tensor in weights.items() if not _is_finite(tensor)]
    if non_finite:
        raise ModelFolderError(
            f"{path}: {first_few(non_finite, ', ')} with NaN or infinite values; "
            "pull or save the model again"
        )


def _is_finite(tensor: Tensor) -> bool:
    return all(extreme.isfinite() for extreme in tensor.detach().aminmax())


@contextmanager
def _open_weights(path: Path) -> Iterator[Any]:
    if not path.is_file():
        raise ModelFolderError(f"{path}: no such file; pull or save the model again")
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise ModelFolderError(
            f"{path}: invalid safetensors file ({shorten(error)}); pull or save the model again"
        ) from error


def _check_headers(headers: dict[str, Any], parameters: dict[str, Tensor], path: Path) -> None:
    shapes = {name: list(tensor.shape) for name, tensor in parameters.items()}
    known = headers.keys() & shapes.keys()
    quantized = {name for name in known if headers[name].get_dtype() == INT8}
    shapes |= {name + SCALE_SUFFIX: shapes[name][:1] for name in quantized}
    problems = [f"{name} is missing" for name in shapes if name not in headers]
    problems += [f"unknown tensor {name}" for name in sorted(headers.keys() - shapes.keys())]
    for name in sorted(headers.keys() & shapes.keys()):
        header, wanted = headers[name], shapes[name]
        if header.get_shape() != wanted:
            problems.append(f"{name} has shape {header.get_shape()}, config.json requires {wanted}")
        elif header.get_dtype() not in FLOAT_DTYPES and (name not in quantized or len(wanted) != 2):
            problems.append(f"{name} is {header.get_dtype()}, not a float type")
    if problems:
        raise ModelFolderError(
            f"{path}: {first_few(problems, '; ')}; weights and config.json do not match"
        )

"""Read and write the weights of a model folder, checked against its config before allocation."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from hubnmt.checkpoint.quantization import SCALE_SUFFIX, dequantize_rows, quantize_tensors
from hubnmt.errors import ModelFolderError, first_few, shorten
from hubnmt.model import Transformer

FLOAT_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""Supported weight types by their name in safetensors."""

INT8 = "I8"
"""Type of the matrices of an 8-bit folder, see `hubnmt.checkpoint.quantization`."""


def to_stored(tensors: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """Convert weights to the dtype of the folder, or to their own if that is narrower."""
    own = {name: tensor.detach().cpu() for name, tensor in tensors.items()}
    if dtype is torch.int8:
        own = quantize_tensors(own)
    else:
        own = {
            name: tensor.to(min(dtype, tensor.dtype, key=lambda each: each.itemsize))
            for name, tensor in own.items()
        }
    return {name: tensor.contiguous() for name, tensor in own.items()}


def own_tensors(model: Transformer) -> dict[str, Tensor]:
    """Return the weights by name; tied ones only under their first name."""
    return dict(model.named_parameters(remove_duplicate=True))


def check_weights(model: Transformer, path: Path) -> torch.dtype:
    """Check that names and shapes in a safetensors header match a model exactly.

    Returns:
        the dtype of the stored weights, the widest if they differ; int8 for 8-bit matrices.

    Raises:
        ModelFolderError: listing missing and unknown tensors and wrong shapes.
    """
    with _open_weights(path) as file:
        _check_header(file, own_tensors(model), path)
        found = {file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
    if INT8 in found:
        return torch.int8
    return max((FLOAT_DTYPES[name] for name in found), key=lambda dtype: dtype.itemsize)


def load_weights(model: Transformer, path: Path) -> None:
    """Load a safetensors file into a model, after `check_weights`.

    Raises:
        ModelFolderError: naming tensors with NaN or infinite values.
    """
    with _open_weights(path) as file, torch.no_grad():
        for name, parameter in own_tensors(model).items():
            tensor = file.get_tensor(name)
            if tensor.dtype is torch.int8:
                tensor = dequantize_rows(tensor, file.get_tensor(name + SCALE_SUFFIX))
            parameter.copy_(tensor)
    non_finite = [name for name, tensor in own_tensors(model).items() if not _is_finite(tensor)]
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


def _check_header(file: Any, parameters: dict[str, Tensor], path: Path) -> None:
    stored = set(file.keys())
    shapes = {name: list(tensor.shape) for name, tensor in parameters.items()}
    quantized = {name for name in stored & set(shapes) if file.get_slice(name).get_dtype() == INT8}
    shapes |= {name + SCALE_SUFFIX: shapes[name][:1] for name in quantized}
    problems = [f"{name} is missing" for name in shapes if name not in stored]
    problems += [f"unknown tensor {name}" for name in sorted(stored - set(shapes))]
    for name in sorted(stored & set(shapes)):
        header, wanted = file.get_slice(name), shapes[name]
        if header.get_shape() != wanted:
            problems.append(f"{name} has shape {header.get_shape()}, config.json requires {wanted}")
        elif header.get_dtype() not in FLOAT_DTYPES and (name not in quantized or len(wanted) != 2):
            problems.append(f"{name} is {header.get_dtype()}, not a float type")
    if problems:
        raise ModelFolderError(
            f"{path}: {first_few(problems, '; ')}; weights and config.json do not match"
        )

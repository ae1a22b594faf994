"""Save and load a model folder: config, tokenizers, weights, decoding defaults, model card.

Folders are untrusted: only JSON and safetensors are read, and all sizes are checked against the
config before memory is allocated. Writing is atomic: a temporary folder is renamed at the end.

In a folder of 8-bit weights a matrix `name` is an int8 tensor with float32 scales `name.scale`, one
per row; vectors stay in float32. Symmetric quantisation: q = round(w / s) with s = max |w| / 127 of
the row. Source: Wu et al. 2020, "Integer quantization for deep learning inference", sections 3.1.2
and 3.2 (https://arxiv.org/abs/2004.09602).
"""

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from hubnmt.checkpoint.files import (
    CARD,
    CONFIG,
    DECODING,
    FORMAT_VERSION,
    LIBRARY,
    WEIGHTS,
    load_config,
    load_decoding,
    replace_folder,
    write_json,
)
from hubnmt.checkpoint.metadata import read_card
from hubnmt.config import DecodingConfig, ModelConfig
from hubnmt.errors import ModelFolderError, first_few, shorten
from hubnmt.model.transformer import Transformer, rename_weights
from hubnmt.text.tokenizer import JOINT_FILE, TWO_FILES, Tokenizer, Tokenizers

FLOAT_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""Supported weight types by their name in safetensors."""

INT8, SCALE_SUFFIX, MAX_LEVEL = "I8", ".scale", 127

INITIALIZERS = {
    nn.init.normal_,
    nn.init.uniform_,
    nn.init.kaiming_uniform_,
    Tensor.normal_,
    Tensor.uniform_,
}
"""Functions that draw initial values."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class StoredModel:
    """The contents of a model folder."""

    model: Transformer
    """In eval mode, float32."""
    tokenizers: Tokenizers
    decoding: DecodingConfig
    """Default decoding options."""
    card: str = ""
    """The model card in Markdown with YAML metadata."""
    dtype: torch.dtype = torch.float32
    """Type of the weights in the folder; float16 halves its size, int8 quarters it."""


def save_model(
    folder: str | os.PathLike[str], stored: StoredModel, *, notes: Mapping[str, str] | None = None
) -> None:
    """Save a model folder, and `notes`, texts by file name; an old one is replaced atomically.

    The weights are written in `stored.dtype`, or in their own type if that is narrower. Callers
    check for unrelated files with `check_destination`.
    """
    with replace_folder(Path(folder)) as target:
        config = stored.model.config.to_dict()
        write_json(
            target / CONFIG,
            {"library": LIBRARY, "format_version": FORMAT_VERSION, **config},
        )
        write_json(target / DECODING, stored.decoding.to_dict())
        stored.tokenizers.save(target)
        # A tied weight is stored once, under its first name.
        tensors = to_stored(dict(stored.model.named_parameters()), stored.dtype)
        # Not `save_file`, which makes the file readable by its owner only.
        content = save(tensors, metadata={"format": "pt"})
        (target / WEIGHTS).write_bytes(content)
        (target / CARD).write_text(stored.card, encoding="utf-8")
        for name, text in (notes or {}).items():
            (target / name).write_text(text, encoding="utf-8")


def load_model(folder: str | os.PathLike[str]) -> StoredModel:
    """Load and validate a model folder.

    Raises:
        ModelFolderError: naming the file, the key and the remedy.
    """
    folder = Path(folder)
    config = load_config(folder)
    tokenizers = _load_tokenizers(folder, config)
    weights = folder / WEIGHTS
    with _meta_device():  # allocates no memory for an invalid config
        dtype = check_weights(Transformer(config), weights)
    model = Transformer(config).eval()
    load_weights(model, weights)
    return StoredModel(
        model=model,
        tokenizers=tokenizers,
        decoding=load_decoding(folder),
        card=read_card(folder),
        dtype=dtype,
    )


def _load_tokenizers(folder: Path, config: ModelConfig) -> Tokenizers:
    sizes, is_joint = (config.src_vocab_size, config.tgt_vocab_size), True
    if not (folder / JOINT_FILE).exists():
        is_joint = not (folder / TWO_FILES[0]).exists()
    names = (JOINT_FILE, JOINT_FILE) if is_joint else TWO_FILES
    loaded = {
        name: Tokenizer.load(folder / name, vocab_size=size)
        for name, size in dict(zip(names, sizes, strict=True)).items()
    }
    for name, size in zip(names, sizes, strict=True):
        if loaded[name].vocab_size != size:
            raise ModelFolderError(
                f"{folder / name}: {loaded[name].vocab_size} pieces, but config.json says {size}; "
                "the files come from different models"
            )
    return Tokenizers(*(loaded[name] for name in names))


# --- weights ---


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


class _SkipInitialization(TorchFunctionMode):
    """Leave new parameters as they are."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call a function of PyTorch unless it draws initial values."""
        kwargs = kwargs or {}
        if func in INITIALIZERS:
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)


@contextmanager
def _meta_device() -> Iterator[None]:
    """Build modules on the `meta` device: names and shapes without memory or initialization.

    Random numbers on this device would import PyTorch's compiler, which takes 2 s.
    """
    with torch.device("meta"), _SkipInitialization():
        yield


def check_weights(model: Transformer, path: Path) -> torch.dtype:
    """Check that names and shapes in a safetensors header match a model exactly.

    Returns:
        the dtype of the stored weights, the widest if they differ; int8 for 8-bit matrices.

    Raises:
        ModelFolderError: listing missing and unknown tensors and wrong shapes.
    """
    with _open_weights(path) as file:
        headers = rename_weights({name: file.get_slice(name) for name in file.keys()})  # noqa: SIM118
        _check_headers(headers, dict(model.named_parameters()), path)
        found = {header.get_dtype() for header in headers.values()}
    if INT8 in found:
        return torch.int8
    return max((FLOAT_DTYPES[name] for name in found), key=lambda dtype: dtype.itemsize)


def load_weights(model: Transformer, path: Path) -> None:
    """Load a safetensors file into a model, after `check_weights`.

    Raises:
        ModelFolderError: naming tensors with NaN or infinite values.
    """
    weights = dict(model.named_parameters())
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

"""Save and load a model folder: config, tokenizers, weights, decoding defaults, model card.

Folders are untrusted: only JSON and safetensors are read, and all sizes are checked against the
config before memory is allocated. Writing is atomic: a temporary folder is renamed at the end.
"""

import dataclasses
import glob
import json
import logging
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from hubnmt.checkpoint.quantization import SCALE_SUFFIX, dequantize_rows, quantize_tensors
from hubnmt.config import DecodingConfig, ModelConfig
from hubnmt.errors import ConfigError, InputError, ModelFolderError, first_few, shorten
from hubnmt.model import Transformer
from hubnmt.model.meta import meta_device
from hubnmt.text.textfile import read_small
from hubnmt.text.tokenizer import Tokenizer, Tokenizers

FORMAT_VERSION = 1
LIBRARY = "hubnmt"
PRETRAINED = Path(__file__).parents[1] / "pretrained"
MAX_JSON_MIB = 1
MAX_CARD_MIB = 2
FLOAT_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""Supported weight types by their name in safetensors."""
INT8 = "I8"
"""Type of the matrices of an 8-bit folder, see `hubnmt.checkpoint.quantization`."""
CARD_FILE = "README.md"
TOKENIZER_FILES = {"tokenizer.json", "tokenizer_src.json", "tokenizer_tgt.json"}
"""A folder has either a joint tokenizer or two; saving one kind removes the other."""

_Config = TypeVar("_Config", ModelConfig, DecodingConfig)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class StoredModel:
    """The contents of a model folder."""

    model: Transformer
    """In eval mode, float32, on the CPU."""
    tokenizers: Tokenizers
    decoding: DecodingConfig
    """Default decoding options."""
    card: str = ""
    """The model card in Markdown with YAML metadata."""
    dtype: torch.dtype = torch.float32
    """Type of the weights in the folder; float16 halves its size, int8 quarters it."""


def bundled_models() -> dict[str, Path]:
    """Return the models bundled with the package, name to folder, sorted by name."""
    return {
        folder.parent.name: folder.parent for folder in sorted(PRETRAINED.glob("*/config.json"))
    }


def check_place(folder: Path) -> None:
    """Check that saving a model to a folder would not overwrite other files.

    Raises:
        InputError: if it is a file, or a folder with other files but no hubnmt model.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder")
    if folder.is_dir() and any(folder.iterdir()) and not _is_model_folder(folder):
        raise InputError(
            f"{folder} contains other files and no {LIBRARY} model; name an empty or a new folder"
        )


def _is_model_folder(folder: Path) -> bool:
    """Return whether a folder holds a hubnmt model of any version.

    Checks the `library` field, because other libraries use the same file names.
    """
    try:
        return read_json(folder / "config.json").get("library") == LIBRARY
    except ModelFolderError:
        return False


def save_model(
    folder: str | os.PathLike[str], stored: StoredModel, *, notes: Mapping[str, str] | None = None
) -> None:
    """Save a model folder; an existing one is replaced atomically.

    The weights are written in `stored.dtype`, or in their own type if that is narrower. Callers
    check for unrelated files with `check_place`.

    Args:
        folder: output folder.
        stored: the model.
        notes: additional text files, name to content.
    """
    with replace_folder(Path(folder)) as target:
        config = stored.model.config.to_dict()
        write_json(
            target / "config.json",
            {"library": LIBRARY, "format_version": FORMAT_VERSION, **config},
        )
        write_json(target / "decoding.json", stored.decoding.to_dict())
        stored.tokenizers.save(target)
        tensors = _to_stored(own_tensors(stored.model), stored.dtype)
        # Not `save_file`, which makes the file readable by its owner only.
        content = save(tensors, metadata={"format": "pt"})
        (target / "model.safetensors").write_bytes(content)
        (target / CARD_FILE).write_text(stored.card, encoding="utf-8")
        for name, text in (notes or {}).items():
            (target / name).write_text(text, encoding="utf-8")


def _to_stored(tensors: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
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


def load_model(folder: str | os.PathLike[str]) -> StoredModel:
    """Load and validate a model folder.

    Raises:
        ModelFolderError: naming the file, the key and the remedy.
    """
    folder = Path(folder)
    config = load_config(folder)
    tokenizers = _load_tokenizers(folder, config)
    decoding_file = folder / "decoding.json"
    decoding = DecodingConfig()
    if decoding_file.exists():
        decoding = _parse(DecodingConfig, _read_decoding(decoding_file), decoding_file)
    weights = folder / "model.safetensors"
    with meta_device():  # allocates no memory for an invalid config
        dtype = check_weights(Transformer(config), weights)
    model = Transformer(config).eval()
    load_weights(model, weights)
    return StoredModel(
        model=model,
        tokenizers=tokenizers,
        decoding=decoding,
        card=read_card(folder),
        dtype=dtype,
    )


def _read_decoding(path: Path) -> dict[str, Any]:
    """Read the decoding options; earlier versions stored a `prefix` among them."""
    values = read_json(path)
    if values.pop("prefix", ""):
        logging.getLogger(__name__).warning(
            "%s: prefix is ignored; give it with each text, as in translate(text, prefix=...)", path
        )
    return values


def load_config(folder: Path) -> ModelConfig:
    """Load and validate `config.json`.

    Raises:
        ModelFolderError: if it is missing, invalid, of another library, or of a newer format.
    """
    path = folder / "config.json"
    values = read_json(path)
    if values.pop("library", None) != LIBRARY:
        raise ModelFolderError(
            f"{path}: 'library' is not {LIBRARY!r}; this is a model of another library"
        )
    version = values.pop("format_version", None)
    if version != FORMAT_VERSION:
        raise ModelFolderError(
            f"{path}: format_version {version!r} is not {FORMAT_VERSION}; "
            "update hubnmt or save the model again"
        )
    return _parse(ModelConfig, values, path)


def _parse(cls: type[_Config], values: Any, path: Path) -> _Config:
    try:
        return cls.from_dict(values, where=str(path))
    except ConfigError as error:
        raise ModelFolderError(str(error)) from None


def read_card(folder: Path) -> str:
    """Read the model card; empty if there is none. Invalid UTF-8 becomes U+FFFD.

    Raises:
        ModelFolderError: if it is too large or cannot be read.
    """
    path = folder / CARD_FILE
    if not path.is_file():
        return ""
    return read_small(path, MAX_CARD_MIB * 2**20).decode("utf-8", "replace")


def _load_tokenizers(folder: Path, config: ModelConfig) -> Tokenizers:
    joint = folder / "tokenizer.json"
    if joint.exists() or not (folder / "tokenizer_src.json").exists():
        src = tgt = Tokenizer.load(joint, vocab_size=config.src_vocab_size)
        names = (joint.name, joint.name)
    else:
        names = ("tokenizer_src.json", "tokenizer_tgt.json")
        src = Tokenizer.load(folder / names[0], vocab_size=config.src_vocab_size)
        tgt = Tokenizer.load(folder / names[1], vocab_size=config.tgt_vocab_size)
    wanted = (config.src_vocab_size, config.tgt_vocab_size)
    for tokenizer, size, name in zip((src, tgt), wanted, names, strict=True):
        if tokenizer.vocab_size != size:
            raise ModelFolderError(
                f"{folder / name}: {tokenizer.vocab_size} pieces, but config.json says {size}; "
                "the files come from different models"
            )
    return Tokenizers(src, tgt)


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
    """Check minimum and maximum, which are NaN if any value is: one pass, no temporary array."""
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


def read_json(path: Path) -> dict[str, Any]:
    """Read a small JSON object.

    Raises:
        ModelFolderError: if the file is missing, too large, not a JSON object, or contains a lone
            surrogate.
    """
    if not path.is_file():
        raise ModelFolderError(f"{path}: no such file; is this a hubnmt model folder?")
    content = read_small(path, MAX_JSON_MIB * 2**20)
    try:
        values = json.loads(content.decode("utf-8"))
        json.dumps(values, ensure_ascii=False).encode()  # finds surrogates at any depth
    except UnicodeEncodeError as error:
        surrogate = error.object[error.start : error.end]
        raise ModelFolderError(
            f"{path}: contains a lone surrogate ({surrogate!a}), not a valid character; remove it"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ModelFolderError(f"{path}: not valid JSON ({error})") from None
    if not isinstance(values, dict):
        raise ModelFolderError(f"{path}: not a JSON object")
    return values


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Write indented JSON."""
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


@contextmanager
def replace_folder(folder: Path, *, dropped: Collection[str] = TOKENIZER_FILES) -> Iterator[Path]:
    """Yield an empty folder that replaces `folder` when the block succeeds.

    Other files in the old folder are kept, except those named in `dropped`.
    """
    folder = folder.resolve()  # a symbolic link stays a link
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = folder.with_name(f".{folder.name}.draft-{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    try:
        yield draft
        _flush(draft)
        if folder.is_dir():
            new = {path.name for path in draft.iterdir()}
            for path in folder.iterdir():
                if path.name not in new and path.name not in dropped:
                    _copy(path, draft / path.name)
            old = folder.with_name(f".{folder.name}.old-{os.getpid()}")
            folder.rename(old)
            try:
                draft.rename(folder)
            except OSError:
                old.rename(folder)
                raise
            shutil.rmtree(old)
        else:
            draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def repair_folder(folder: Path) -> None:
    """Restore a folder after `replace_folder` was interrupted between its two renames.

    At that point the complete old and new folders exist under temporary names; the new one is
    renamed to `folder`. There must be no concurrent writer.
    """
    if folder.exists() or not folder.parent.is_dir():
        return
    for kind in ("draft", "old"):
        for old in folder.parent.glob(f".{glob.escape(folder.name)}.old-*"):
            found = old.with_name(old.name.replace(".old-", f".{kind}-"))
            if found.is_dir():
                found.rename(folder)
                shutil.rmtree(old, ignore_errors=True)
                return


def _flush(folder: Path) -> None:
    """Flush files to disk, because a rename may be persisted before their contents."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("r+b") as file:
                os.fsync(file.fileno())


def _copy(source: Path, target: Path) -> None:
    if source.is_dir() and not source.is_symlink():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy2(source, target, follow_symlinks=False)

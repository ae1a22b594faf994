"""A model as a folder: config, tokenizer, weights, decoding defaults.

Takes a folder, gives a validated `StoredModel`, and back. Must not know the network or training.
FoldedCrossAttention trusts nothing: JSON and safetensors only, and every size is checked against the config
before memory is allocated. A folder is written beside its place and moved there whole.
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

from hubnmt.config import DecodingConfig, ModelConfig
from hubnmt.errors import ConfigError, InputError, ModelFolderError, first_few, shorten
from hubnmt.model import Transformer
from hubnmt.text.textfile import read_small
from hubnmt.text.tokenizer import Tokenizer

FORMAT_VERSION = 1
LIBRARY = "hubnmt"
PRETRAINED = Path(__file__).parents[1] / "pretrained"
MAX_JSON_MIB = 1
MAX_CARD_MIB = 2
FLOAT_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""What weights may be stored as, by safetensors' name for it."""
CARD_FILE = "README.md"
TOKENIZER_FILES = {"tokenizer.json", "tokenizer_src.json", "tokenizer_tgt.json"}
"""A folder has one kind or the other: a save that writes one must not keep the other."""

_Config = TypeVar("_Config", ModelConfig, DecodingConfig)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class StoredModel:
    """All that a model folder holds."""

    model: Transformer
    """In eval mode, float32, on the CPU."""
    src_tokenizer: Tokenizer
    tgt_tokenizer: Tokenizer
    """The same object as `src_tokenizer` where the vocabulary is joint."""
    decoding: DecodingConfig
    """Defaults chosen for this model."""
    card: str = ""
    """The model card, Markdown with a YAML head."""
    dtype: torch.dtype = torch.float32
    """Of the weights in the folder; float16 takes half the room (the card should say so)."""


def bundled_models() -> dict[str, Path]:
    """Find the models that travel inside the package: name to folder, sorted by name."""
    return {
        folder.parent.name: folder.parent for folder in sorted(PRETRAINED.glob("*/config.json"))
    }


def check_place(folder: Path) -> None:
    """Refuse a place for a model where it would write over something else.

    Raises:
        InputError: if it is a file, or a folder that holds other files and no model of ours.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder")
    if folder.is_dir() and any(folder.iterdir()) and not _is_ours(folder):
        raise InputError(
            f"{folder} holds other files and no model of {LIBRARY}; name an empty or a new folder"
        )


def _is_ours(folder: Path) -> bool:
    """Tell whether a folder carries our mark, whatever version wrote it: its files may be replaced.

    Another library's has the same names in it.
    """
    try:
        return read_json(folder / "config.json").get("library") == LIBRARY
    except ModelFolderError:
        return False


def save_model(
    folder: str | os.PathLike[str], stored: StoredModel, *, notes: Mapping[str, str] | None = None
) -> None:
    """Write a model folder; an existing one is replaced whole or not at all.

    The weights are written as `stored.dtype`, or as narrow as they are by now: no room is taken for
    digits they do not have. What else may stand there is for the caller to ask about, see
    `check_place`.

    Args:
        folder: where to.
        stored: the model.
        notes: more files, by name, that come into the folder in the same step.
    """
    with replace_folder(Path(folder)) as target:
        config = stored.model.config.to_dict()
        write_json(
            target / "config.json",
            {"library": LIBRARY, "format_version": FORMAT_VERSION, **config},
        )
        write_json(target / "decoding.json", stored.decoding.to_dict())
        if stored.src_tokenizer is stored.tgt_tokenizer:
            stored.src_tokenizer.save(target / "tokenizer.json")
        else:
            stored.src_tokenizer.save(target / "tokenizer_src.json")
            stored.tgt_tokenizer.save(target / "tokenizer_tgt.json")
        tensors = {
            name: tensor.detach().to("cpu", _narrower(stored.dtype, tensor.dtype)).contiguous()
            for name, tensor in own_tensors(stored.model).items()
        }
        # Not `save_file`, which lets only the owner read what it wrote.
        content = save(tensors, metadata={"format": "pt"})
        (target / "model.safetensors").write_bytes(content)
        (target / CARD_FILE).write_text(stored.card, encoding="utf-8")
        for name, text in (notes or {}).items():
            (target / name).write_text(text, encoding="utf-8")


def _narrower(one: torch.dtype, other: torch.dtype) -> torch.dtype:
    return min(one, other, key=lambda dtype: dtype.itemsize)


def load_model(folder: str | os.PathLike[str]) -> StoredModel:
    """Read a model folder strictly.

    Raises:
        ModelFolderError: naming the file, the key and the remedy.
    """
    folder = Path(folder)
    config = load_config(folder)
    src_tokenizer, tgt_tokenizer = _load_tokenizers(folder, config)
    decoding_file = folder / "decoding.json"
    decoding = DecodingConfig()
    if decoding_file.exists():
        decoding = _parse(DecodingConfig, _read_decoding(decoding_file), decoding_file)
    weights = folder / "model.safetensors"
    with torch.device("meta"):  # names and shapes, no memory: a lying config costs nothing
        dtype = check_weights(Transformer(config), weights)
    model = Transformer(config).eval()
    load_weights(model, weights)
    return StoredModel(
        model=model,
        src_tokenizer=src_tokenizer,
        tgt_tokenizer=tgt_tokenizer,
        decoding=decoding,
        card=read_card(folder),
        dtype=dtype,
    )


def _read_decoding(path: Path) -> dict[str, Any]:
    """Read the settings of a search; a `prefix` was one of them once."""
    values = read_json(path)
    if values.pop("prefix", ""):
        logging.getLogger(__name__).warning(
            "%s: prefix is ignored; give it with each text, as in translate(text, prefix=...)", path
        )
    return values


def load_config(folder: Path) -> ModelConfig:
    """Read and check `config.json` alone.

    Raises:
        ModelFolderError: if it is missing, torn, foreign, of a newer format, or out of range.
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
    """Read the model card; empty if there is none. Bytes that are not UTF-8 become U+FFFD.

    Raises:
        ModelFolderError: if it is too large, or cannot be read.
    """
    path = folder / CARD_FILE
    if not path.is_file():
        return ""
    return read_small(path, MAX_CARD_MIB * 2**20).decode("utf-8", "replace")


def _load_tokenizers(folder: Path, config: ModelConfig) -> tuple[Tokenizer, Tokenizer]:
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
    return src, tgt


def own_tensors(model: Transformer) -> dict[str, Tensor]:
    """List the weights, each storage once: tied ones under their first name."""
    return dict(model.named_parameters(remove_duplicate=True))


def check_weights(model: Transformer, path: Path) -> torch.dtype:
    """Compare a safetensors header with a model: names and shapes must match exactly.

    Returns:
        what the weights are stored as, the widest if they differ.

    Raises:
        ModelFolderError: listing what is missing, unknown or of another shape.
    """
    with _open_weights(path) as file:
        _check_header(file, own_tensors(model), path)
        found = [FLOAT_DTYPES[file.get_slice(name).get_dtype()] for name in file.keys()]  # noqa: SIM118
    return max(found, key=lambda dtype: dtype.itemsize)


def load_weights(model: Transformer, path: Path) -> None:
    """Copy a safetensors file, whose header `check_weights` found good, into a model.

    Raises:
        ModelFolderError: naming tensors with infinite numbers or none: they spread to all scores.
    """
    with _open_weights(path) as file, torch.no_grad():
        for name, parameter in own_tensors(model).items():
            parameter.copy_(file.get_tensor(name))
    broken = [name for name, tensor in own_tensors(model).items() if not _is_finite(tensor)]
    if broken:
        raise ModelFolderError(
            f"{path}: {first_few(broken, ', ')} with NaN or infinite numbers; "
            "pull or save the model again"
        )


def _is_finite(tensor: Tensor) -> bool:
    """Look at the smallest and the largest number alone: one pass, no array beside; NaN is both."""
    return all(extreme.isfinite() for extreme in tensor.detach().aminmax())


@contextmanager
def _open_weights(path: Path) -> Iterator[Any]:
    if not path.is_file():
        raise ModelFolderError(f"{path}: no such file; a model folder needs its weights")
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise ModelFolderError(
            f"{path}: not a whole safetensors file ({shorten(error)}); pull or save the model again"
        ) from error


def _check_header(file: Any, parameters: dict[str, Tensor], path: Path) -> None:
    stored = set(file.keys())
    problems = [f"{name} is missing" for name in parameters if name not in stored]
    problems += [f"unknown tensor {name}" for name in sorted(stored - set(parameters))]
    for name in sorted(stored & set(parameters)):
        header, wanted = file.get_slice(name), list(parameters[name].shape)
        if header.get_shape() != wanted:
            problems.append(f"{name} has shape {header.get_shape()}, config.json wants {wanted}")
        elif header.get_dtype() not in FLOAT_DTYPES:
            problems.append(f"{name} is {header.get_dtype()}, not a float type")
    if problems:
        raise ModelFolderError(
            f"{path}: {first_few(problems, '; ')}; weights and config.json do not match"
        )


def read_json(path: Path) -> dict[str, Any]:
    """Read a small JSON object.

    Raises:
        ModelFolderError: if the file is missing, too large, or not a JSON object, or holds what is
            no character.
    """
    if not path.is_file():
        raise ModelFolderError(f"{path}: no such file; is this a hubnmt model folder?")
    content = read_small(path, MAX_JSON_MIB * 2**20)
    try:
        values = json.loads(content.decode("utf-8"))
        json.dumps(values, ensure_ascii=False).encode()  # every key and text, however deep
    except UnicodeEncodeError as error:
        half = error.object[error.start : error.end]
        raise ModelFolderError(
            f"{path}: half a surrogate pair ({half!a}) in it, which is no character; take it out"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ModelFolderError(f"{path}: not valid JSON ({error})") from None
    if not isinstance(values, dict):
        raise ModelFolderError(f"{path}: not a JSON object")
    return values


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Write readable JSON."""
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


@contextmanager
def replace_folder(folder: Path, *, dropped: Collection[str] = TOKENIZER_FILES) -> Iterator[Path]:
    """Offer an empty folder to fill; when the block ends well, it takes the place of `folder`.

    Files that stood in the old folder and that the new one does not have are kept, but for those to
    be dropped: nothing a user put there is lost.
    """
    folder = folder.resolve()  # a link to a folder stays a link
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
    """Bring a folder back that a power cut took while `replace_folder` exchanged it.

    For a moment only the old folder and the new one are there, under other names; both are whole,
    and the new one takes the place. Nobody else may be writing there.
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
    """Bring files to the disk: a rename may be there before what is in them."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("r+b") as file:
                os.fsync(file.fileno())


def _copy(source: Path, target: Path) -> None:
    if source.is_dir() and not source.is_symlink():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy2(source, target, follow_symlinks=False)

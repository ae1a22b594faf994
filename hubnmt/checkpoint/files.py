"""Files of a model folder, its config, the bundled models, and atomic replacement of a folder."""

import glob
import json
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from hubnmt.config import DecodingConfig, ModelConfig
from hubnmt.errors import ConfigError, InputError, ModelFolderError
from hubnmt.text.textfile import read_small
from hubnmt.text.tokenizer import JOINT_FILE, TWO_FILES
from hubnmt.text.tokenizer_file import MAX_FILE_MIB

FORMAT_VERSION = 1
LIBRARY = "hubnmt"
PRETRAINED = Path(__file__).parents[1] / "pretrained"

CONFIG, DECODING, WEIGHTS = "config.json", "decoding.json", "model.safetensors"
CARD, METRICS, SAMPLES = "README.md", "metrics.jsonl", "samples.md"
BOARD = "runs/events.out.tfevents.hubnmt"
"""TensorBoard events, which the Hub displays; uploaded, but not downloaded."""

MAX_JSON_MIB = 1
MAX_CARD_MIB = 2
MAX_RECORD_MIB = 1
"""Size limit of the curves and of the sample translations of a training run."""
MAX_BOARD_MIB = 8

LIMITS_MIB = {
    CONFIG: MAX_JSON_MIB,
    DECODING: MAX_JSON_MIB,
    **dict.fromkeys((JOINT_FILE, *TWO_FILES), MAX_FILE_MIB),
    CARD: MAX_CARD_MIB,
    METRICS: MAX_RECORD_MIB,
    SAMPLES: MAX_RECORD_MIB,
}
"""Files of a model folder without the weights, whose limit follows from the config."""

MODEL_FILES = [*LIMITS_MIB, WEIGHTS]

ConfigT = TypeVar("ConfigT", ModelConfig, DecodingConfig)


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
        json.dumps(values, ensure_ascii=False).encode()  # refuses lone surrogates at any depth
    except (ValueError, RecursionError) as error:
        raise ModelFolderError(f"{path}: not valid JSON ({error})") from None
    if not isinstance(values, dict):
        raise ModelFolderError(f"{path}: not a JSON object")
    return values


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Write indented JSON."""
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def bundled_models() -> dict[str, Path]:
    """Return the models bundled with the package, name to folder, sorted by name."""
    return {
        folder.parent.name: folder.parent for folder in sorted(PRETRAINED.glob("*/config.json"))
    }


def check_destination(folder: Path) -> None:
    """Raise an `InputError` if saving a model to a folder would overwrite other files."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder")
    if folder.is_dir() and any(folder.iterdir()):
        try:  # the field, because other libraries use the same file names
            library = read_json(folder / CONFIG).get("library")
        except ModelFolderError:
            library = None
        if library != LIBRARY:
            raise InputError(
                f"{folder} contains other files and no {LIBRARY} model; name an empty or a new "
                "folder"
            )


def load_config(folder: Path) -> ModelConfig:
    """Load and validate `config.json`.

    Raises:
        ModelFolderError: if it is missing, invalid, of another library, or of a newer format.
    """
    path = folder / CONFIG
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
    return parse_config(ModelConfig, values, path)


def load_decoding(folder: Path) -> DecodingConfig:
    """Load and validate `decoding.json`, which may be missing."""
    path = folder / DECODING
    if not path.exists():
        return DecodingConfig()
    values = read_json(path)
    values.pop("prefix", None)  # a default of earlier versions
    return parse_config(DecodingConfig, values, path)


def parse_config(cls: type[ConfigT], values: Any, path: Path) -> ConfigT:
    """Build a config, or raise a `ModelFolderError` with the file and all its invalid values."""
    try:
        return cls.from_dict(values, where=str(path))
    except ConfigError as error:
        raise ModelFolderError(str(error)) from None


@contextmanager
def replace_folder(
    folder: Path, *, dropped: Collection[str] = (JOINT_FILE, *TWO_FILES)
) -> Iterator[Path]:
    """Yield an empty folder that replaces `folder` when the block succeeds.

    Other files in the old folder are kept, except those named in `dropped`: by default the
    tokenizers, of which a folder has either a joint one or two.
    """
    # 1. Let the block fill a draft beside the folder.
    folder = folder.resolve()  # a symbolic link stays a link
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = folder.with_name(f".{folder.name}.draft-{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    try:
        yield draft
        _flush(draft)
        if not folder.is_dir():
            draft.rename(folder)
            return
        # 2. Keep the other files of the old folder.
        left = {*dropped, *(path.name for path in draft.iterdir())}
        shutil.copytree(
            folder,
            draft,
            symlinks=True,
            ignore=lambda place, _: left if place == str(folder) else (),
            dirs_exist_ok=True,
        )
        # 3. Exchange the two.
        old = folder.with_name(f".{folder.name}.old-{os.getpid()}")
        folder.rename(old)
        try:
            draft.rename(folder)
        except OSError:
            old.rename(folder)
            raise
        shutil.rmtree(old)
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

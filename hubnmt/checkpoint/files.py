"""The files of a model folder; small JSON files, and folders that are replaced atomically."""

import glob
import json
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hubnmt.errors import ModelFolderError
from hubnmt.text.textfile import read_small
from hubnmt.text.tokenizer import JOINT_FILE, TWO_FILES
from hubnmt.text.tokenizer_file import MAX_FILE_MIB

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


@contextmanager
def replace_folder(
    folder: Path, *, dropped: Collection[str] = (JOINT_FILE, *TWO_FILES)
) -> Iterator[Path]:
    """Yield an empty folder that replaces `folder` when the block succeeds.

    Other files in the old folder are kept, except those named in `dropped`: by default the
    tokenizers, of which a folder has either a joint one or two.
    """
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

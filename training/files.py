"""Atomic writes, and one-line errors when a disk is full."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from hubnmt.errors import ModelFolderError


@contextlib.contextmanager
def reporting_write_errors(path: Path) -> Iterator[None]:
    """Raise a failed write of the block as a `ModelFolderError` in one line."""
    try:
        yield
    except Exception as error:  # torch and safetensors report a full disk in their own ways
        if not isinstance(error, (OSError, RuntimeError)) and "os error" not in str(error):
            raise
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__cause__ or cause.__context__
        lines = str(error).splitlines() or [type(error).__name__]
        reason = (cause.strerror if isinstance(cause, OSError) else None) or lines[0]
        raise ModelFolderError(
            f"{path}: cannot be saved ({reason}); earlier files are intact: free disk space, then "
            "resume with --resume"
        ) from error


def replace_file(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Replace a file atomically and durably: write a draft, flush, and rename it."""
    draft = path.with_name(f".{path.name}.draft")
    try:
        with reporting_write_errors(path):
            path.parent.mkdir(exist_ok=True)
            with draft.open("wb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
            if os.name == "posix":  # Windows cannot open folders
                folder = os.open(path.parent, os.O_RDONLY)
                os.fsync(folder)  # makes the rename durable
                os.close(folder)
    finally:
        draft.unlink(missing_ok=True)  # free the space


def replace_text(path: Path, text: str) -> None:
    """Replace a text file atomically."""
    replace_file(path, lambda file: file.write(text.encode()))

"""Atomic writes of text files, and one-line errors when a disk is full."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from hubnmt.errors import ModelFolderError


def explain_failed_save(path: Path, error: Exception) -> ModelFolderError:
    """Return a one-line error for a failed write; libraries report a full disk in many ways."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    lines = str(error).splitlines() or [type(error).__name__]
    reason = (cause.strerror if isinstance(cause, OSError) else None) or lines[0]
    return ModelFolderError(
        f"{path}: cannot be saved ({reason}); earlier files are intact: free disk space, then "
        "resume with --resume"
    )


@contextlib.contextmanager
def reporting_full_disk(path: Path) -> Iterator[None]:
    """Raise an `OSError` of the block as a `ModelFolderError`, by `explain_failed_save`."""
    try:
        yield
    except OSError as error:
        raise explain_failed_save(path, error) from error


def replace_text(path: Path, text: str) -> None:
    """Replace a text file atomically."""
    draft = path.with_name(f".{path.name}.draft")
    with reporting_full_disk(path):
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)

"""Files of a run that are whole or not there, and a disk that is full told in one line.

Takes paths, texts and the errors of systems and libraries, gives files or a `ModelFolderError`.
Must not know what is in them.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from hubnmt.errors import ModelFolderError


def explain_failed_save(path: Path, error: Exception) -> ModelFolderError:
    """Put a full or vanished disk into one line; libraries tell it in many ways."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    lines = str(error).splitlines() or [type(error).__name__]
    reason = (cause.strerror if isinstance(cause, OSError) else None) or lines[0]
    return ModelFolderError(
        f"{path}: cannot be saved ({reason}); what was saved before is whole: make room, then go "
        "on with --resume"
    )


@contextlib.contextmanager
def telling_full_disk(path: Path) -> Iterator[None]:
    """Let a write that fails within end as `explain_failed_save` says.

    Raises:
        ModelFolderError: in place of the system's error.
    """
    try:
        yield
    except OSError as error:
        raise explain_failed_save(path, error) from error


def replace_text(path: Path, text: str) -> None:
    """Write a file anew, whole or not at all.

    Raises:
        ModelFolderError: if the disk is full.
    """
    draft = path.with_name(f".{path.name}.draft")
    with telling_full_disk(path):
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)

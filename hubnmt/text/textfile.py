"""Lines of text, in and out, of any size.

Takes paths or streams, gives lines one at a time, and appends lines so that an interrupted job can
go on. Must not know models. Only a line feed ends a line: what other characters Unicode calls line
breaks stay inside, so line n of two aligned files stays line n.
"""

import codecs
import errno
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from hubnmt.errors import InputError, ModelFolderError

MAX_LINE_CHARS = 50_000
"""A line longer than this is no sentence and no paragraph; it would hold up all others."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""How a system says that a disk, or a user's share of it, is full."""
TOO_LONG = "put every sentence or paragraph on a line of its own"


def read_small(path: Path, max_bytes: int) -> bytes:
    """Read a file of a model folder that must be small.

    Its size is not asked for: a file that the system makes up, as in /proc, has none.

    Raises:
        ModelFolderError: if it is larger, or cannot be read.
    """
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise ModelFolderError(f"{path}: cannot be read ({reason.lower()})") from None
    if len(content) > max_bytes:
        raise ModelFolderError(f"{path}: larger than {max_bytes / 2**20:.3g} MiB; refused")
    return content


def decode_line(raw: bytes, *, where: str) -> str:
    """Turn the bytes of one line into text, without its line feed.

    Raises:
        InputError: naming the place, if it is not UTF-8, holds a zero byte (a binary file) or is
            far too long.
    """
    try:
        text = raw.removesuffix(b"\n").decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{where}: not valid UTF-8; is it a text file? convert it first") from None
    if "\0" in text:
        raise InputError(f"{where}: holds a zero byte; this is a binary file, not text")
    return check_line(text, where=where)


def check_line(text: str, *, where: str) -> str:
    """Give a line back if it is not far too long.

    Raises:
        InputError: naming the place and the limit.
    """
    if len(text) > MAX_LINE_CHARS:
        raise InputError(
            f"{where}: {len(text):,} characters, a line may have {MAX_LINE_CHARS:,}; {TOO_LONG}"
        )
    return text


def read_stream(stream: BinaryIO, *, name: str, skip: int = 0) -> Iterator[str]:
    """Yield the lines of an open binary stream from line `skip` (counted from 0) on.

    A byte order mark in front, as Windows writes it, is no part of the first line.
    """
    most = 4 * MAX_LINE_CHARS + 1  # bytes: no more of an endless line is read
    for number, raw in enumerate(iter(lambda: stream.readline(most), b""), start=1):
        where = f"{name}, line {number:,}"
        if len(raw) == most and not raw.endswith(b"\n"):
            raise InputError(f"{where}: over {MAX_LINE_CHARS:,} characters; {TOO_LONG}")
        if number == 1:
            raw = raw.removeprefix(codecs.BOM_UTF8)
        if number > skip:
            yield decode_line(raw, where=where)


def read_lines(path: Path, *, skip: int = 0) -> Iterator[str]:
    """Yield the lines of a file from line `skip` (counted from 0) on.

    Raises:
        InputError: if it cannot be opened or is no text.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    with file:
        yield from read_stream(file, name=str(path), skip=skip)


def read_stdin() -> Iterator[str]:
    """Yield the lines of standard input.

    Raises:
        InputError: if it is closed.
    """
    if sys.stdin is None:
        raise InputError("standard input is closed; give texts, or --input FILE")
    return read_stream(sys.stdin.buffer, name="standard input")


def read_aligned(*paths: Path) -> list[list[str]]:
    """Read files whose lines belong together.

    Raises:
        InputError: if they differ in their number of lines, or are empty.
    """
    columns = [list(read_lines(path)) for path in paths]
    counts = {len(column) for column in columns}
    if len(counts) > 1:
        said = ", ".join(
            f"{path} has {len(column):,}" for path, column in zip(paths, columns, strict=True)
        )
        raise InputError(f"the files must have the same number of lines: {said}")
    if counts == {0}:
        raise InputError(f"{paths[0]} is empty: there is nothing to score")
    return columns


def can_be_read_twice(path: Path) -> bool:
    """Tell a file from a pipe or a device, whose bytes are gone once they are read."""
    try:
        mode = path.stat().st_mode
    except OSError:  # whoever reads it says what is wrong
        return True
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def count_lines(path: Path) -> int:
    """Count line feeds, plus one for a last line without."""
    n_lines, last = 0, b"\n"
    try:
        with path.open("rb") as file:
            while block := file.read(2**20):
                n_lines += block.count(b"\n")
                last = block[-1:]
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    return n_lines + (last != b"\n")


def is_torn(path: Path) -> bool:
    """Tell whether a file's last line lacks its line feed: whoever wrote it was stopped there."""
    with path.open("rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - 1, 0))
        return file.read() not in (b"\n", b"")


@contextmanager
def open_output(path: Path, *, overwrite: bool, carry_on: bool) -> Iterator[tuple[BinaryIO, int]]:
    """Open a result file without harming what it holds.

    Args:
        path: the file; a pipe or a device is just written to.
        overwrite: an existing file may be replaced; it is, when the block ends well. When it does
            not, what was written stays beside it, under the name of the open file.
        carry_on: an existing file is continued; a last line without line feed was torn and is cut.

    Yields:
        the open file, and how many whole lines it holds.

    Raises:
        InputError: if it exists and neither was asked for, or it cannot be written.
    """
    try:
        file, n_lines = _open_output(path, overwrite=overwrite, carry_on=carry_on)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None
    written = Path(file.name)
    is_draft = written != path
    try:
        with file:
            yield file, n_lines
        if is_draft:
            written.replace(path.resolve())
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        said = f"{written}: cannot be written ({error.strerror}); make room and try again"
        raise InputError(said) from None
    finally:
        if is_draft and written.is_file() and not written.stat().st_size:
            written.unlink()


def _open_output(path: Path, *, overwrite: bool, carry_on: bool) -> tuple[BinaryIO, int]:
    if not path.exists():
        return path.open("xb"), 0
    if not can_be_read_twice(path):
        return path.open("wb"), 0
    if overwrite and path.is_file():
        target = path.resolve()  # a link to a file stays a link
        draft = target.with_name(f"{target.name}.draft-{os.getpid()}")
        file = draft.open("wb")
        shutil.copymode(target, draft)
        return file, 0
    if carry_on:
        return _open_behind(path)
    raise InputError(
        f"{path} exists: --continue goes on behind its last line, --overwrite replaces it"
    )


def _open_behind(path: Path) -> tuple[BinaryIO, int]:
    file = path.open("r+b")
    n_lines, end = 0, 0
    for line in file:
        if line.endswith(b"\n"):
            n_lines, end = n_lines + 1, end + len(line)
    file.truncate(end)
    file.seek(0, os.SEEK_END)
    return file, n_lines

"""Read and write text files line by line, with resumable output.

Only a line feed ends a line; other Unicode line separators are kept, so that the lines of aligned
files stay aligned.
"""

import codecs
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from hubnmt.errors import InputError, ModelFolderError

MAX_LINE_CHARS = 50_000
"""Longest accepted line, far beyond a sentence or paragraph."""
TOO_LONG = "put each sentence or paragraph on its own line"


def read_small(path: Path, max_bytes: int) -> bytes:
    """Read a file of a model folder with a size limit.

    The limit applies while reading, because special files, as in /proc, report no size.

    Raises:
        ModelFolderError: if it exceeds the limit or cannot be read.
    """
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise ModelFolderError(f"{path}: cannot be read ({reason.lower()})") from None
    if len(content) > max_bytes:
        raise ModelFolderError(f"{path}: larger than the limit of {max_bytes / 2**20:.3g} MiB")
    return content


def check_line(text: str, *, where: str) -> str:
    """Return a line, or raise an `InputError` if it is too long."""
    if len(text) > MAX_LINE_CHARS:
        raise InputError(
            f"{where}: {len(text):,} characters, over the limit of {MAX_LINE_CHARS:,}; {TOO_LONG}"
        )
    return text


def read_stream(stream: BinaryIO, *, name: str) -> Iterator[str]:
    """Yield the lines of an open binary stream.

    A leading byte order mark, as written on Windows, is removed.

    Raises:
        InputError: naming the line, if it is not UTF-8, contains a null byte (a binary file) or is
            too long.
    """
    most = 4 * MAX_LINE_CHARS + 1  # bytes; bounds the memory for one line
    for number, raw in enumerate(iter(lambda: stream.readline(most), b""), start=1):
        where = f"{name}, line {number:,}"
        if len(raw) == most and not raw.endswith(b"\n"):
            raise InputError(f"{where}: over {MAX_LINE_CHARS:,} characters; {TOO_LONG}")
        if number == 1:
            raw = raw.removeprefix(codecs.BOM_UTF8)
        try:
            text = raw.removesuffix(b"\n").decode("utf-8")
        except UnicodeDecodeError:
            raise InputError(f"{where}: not valid UTF-8; convert the file to UTF-8 first") from None
        if "\0" in text:
            raise InputError(f"{where}: contains a null byte; this is a binary file, not text")
        yield check_line(text, where=where)


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file.

    Raises:
        InputError: if it cannot be opened or is not text.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    with file:
        yield from read_stream(file, name=str(path))


def read_stdin() -> Iterator[str]:
    """Yield the lines of standard input, or raise an `InputError` if it is closed."""
    if sys.stdin is None:
        raise InputError("standard input is closed; give texts, or --input FILE")
    return read_stream(sys.stdin.buffer, name="standard input")


def read_aligned(*paths: Path) -> list[list[str]]:
    """Read line-aligned files.

    Raises:
        InputError: if their numbers of lines differ, or they are empty.
    """
    columns = [list(read_lines(path)) for path in paths]
    counts = {len(column) for column in columns}
    if len(counts) > 1:
        listing = ", ".join(
            f"{path} has {len(column):,}" for path, column in zip(paths, columns, strict=True)
        )
        raise InputError(f"the files must have the same number of lines: {listing}")
    if counts == {0}:
        raise InputError(f"{paths[0]} is empty; give a file with at least one line")
    return columns


def can_be_read_twice(path: Path) -> bool:
    """Return whether a path is a file or folder rather than a pipe or device."""
    try:
        mode = path.stat().st_mode
    except OSError:  # reported when it is read
        return True
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


@contextmanager
def open_output(path: Path, *, overwrite: bool, carry_on: bool) -> Iterator[tuple[BinaryIO, int]]:
    """Open an output file, which is `FILE.part` until the block succeeds.

    A pipe or device is written to directly. `overwrite` replaces an existing file at the end,
    `carry_on` appends to the part that an interrupted job left.

    Yields:
        the open file, and the number of lines in it.

    Raises:
        InputError: if it exists and the option is not set, or it cannot be written.
    """
    if not can_be_read_twice(path):
        with path.open("wb") as stream:
            yield stream, 0
        return
    target = path.resolve()  # a symbolic link stays a link
    part = target.with_name(f"{target.name}.part")
    if target.exists() and not (overwrite and target.is_file()):
        raise InputError(f"{path} exists: --overwrite replaces it")
    if part.exists() and not carry_on:
        raise InputError(f"{part} is of an interrupted job: --continue completes it, or remove it")
    try:
        file = part.open("a+b")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None
    try:
        with file:
            file.seek(0)
            n_lines = end = 0
            for line in file:
                if line.endswith(b"\n"):  # the last one may be incomplete
                    n_lines, end = n_lines + 1, end + len(line)
            file.truncate(end)
            yield file, n_lines
        if target.exists():
            shutil.copymode(target, part)
        part.replace(target)
    except BaseException as error:
        if part.is_file() and part.stat().st_size:
            error.add_note(f"the lines so far are in {part}: --continue continues after them")
        else:
            part.unlink(missing_ok=True)
        raise

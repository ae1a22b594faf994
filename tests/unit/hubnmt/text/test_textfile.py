"""Lines in and out: only a line feed ends one, nothing is read too early, no result is harmed."""

import io
import itertools
import os
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

import pytest

from hubnmt.errors import InputError
from hubnmt.text.textfile import (
    can_be_read_twice,
    count_lines,
    decode_line,
    is_torn,
    open_output,
    read_aligned,
    read_lines,
    read_stdin,
    read_stream,
)

INSIDE = "a\u2028b\u2029c\x85d\x0be\x0cf\rg\x1ch\ufeff"
"""Everything Python or Unicode may call a line break, and a byte order mark: none ends a line."""


def write(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# --- reading -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("", []),
        ("\n", [""]),
        ("a\nb", ["a", "b"]),
        ("\n\na\n\n", ["", "", "a", ""]),
        ("a\r\nb\r\n", ["a\r", "b\r"]),
        (f"{INSIDE}\n{INSIDE}", [INSIDE, INSIDE]),
        ("  Grüße 👩\u200d👧 മല \n", ["  Grüße 👩\u200d👧 മല "]),
    ],
    ids=repr,
)
def test_only_a_line_feed_ends_a_line(content: str, lines: list[str], tmp_path: Path) -> None:
    path = write(tmp_path / "in.txt", content)
    assert list(read_lines(path)) == lines
    assert list(read_stream(io.BytesIO(content.encode()), name="in")) == lines
    assert count_lines(path) == len(lines)


@pytest.mark.parametrize("content", ["\ufeffa\nb\n", "\ufeffa\r\n\ufeffb", "\ufeff\n", "\ufeff"])
def test_a_byte_order_mark_in_front_is_no_part_of_the_text(content: str, tmp_path: Path) -> None:
    path, lines = write(tmp_path / "in.txt", content), content[1:].removesuffix("\n").split("\n")
    assert list(read_lines(path)) == lines
    assert list(read_lines(path, skip=1)) == lines[1:]
    assert list(read_stream(io.BytesIO(content.encode()), name="in")) == lines
    assert count_lines(path) == len(lines)


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert not can_be_read_twice(tmp_path / "pipe")
    assert not can_be_read_twice(Path(os.devnull))
    assert can_be_read_twice(write(tmp_path / "in.txt", "a"))
    for named_by_its_reader in (tmp_path, tmp_path / "nowhere", tmp_path / ("x" * 300)):
        assert can_be_read_twice(named_by_its_reader)


@pytest.mark.parametrize("text", ["a", "a\nb", "", "a\nb\n", "a\r"])
def test_a_last_line_without_its_line_feed_is_torn(text: str, tmp_path: Path) -> None:
    assert is_torn(write(tmp_path / "in.txt", text)) == (not f"\n{text}".endswith("\n"))


def test_counting_crosses_the_borders_of_its_blocks(tmp_path: Path) -> None:
    path = write(tmp_path / "in.txt", b"x" * (2**20 - 1) + b"\n" + b"y\n" * 2**19 + b"end")
    assert count_lines(path) == 1 + 2**19 + 1


def test_lines_are_read_when_they_are_wanted() -> None:
    """An endless input gives its first lines at once, so memory does not grow with the file."""
    n_read = 0

    class Endless(io.RawIOBase):
        def readline(self, size: int | None = -1) -> bytes:
            nonlocal n_read
            n_read += 1
            return b"a line\n"

    lines = read_stream(Endless(), name="endless", skip=2)  # type: ignore[arg-type]  # enough of one
    assert n_read == 0
    assert list(itertools.islice(lines, 3)) == ["a line"] * 3
    assert n_read == 5


def test_a_mistake_further_down_does_not_spoil_the_lines_before(tmp_path: Path) -> None:
    path = write(tmp_path / "in.txt", b"good\nb\xe4d\nbetter")
    assert list(read_lines(path, skip=2)) == ["better"]
    lines = read_lines(path)
    assert next(lines) == "good"
    with pytest.raises(InputError, match=r"in\.txt, line 2: not valid UTF-8"):
        next(lines)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"Gr\xfc\xdfe\n", ["UTF-8", "convert"]),
        ("Grüße\n".encode("utf-16"), ["UTF-8"]),
        (b"PK\x03\x04\x00\x00\n", ["null byte", "binary"]),
        (b"x" * 50_001, ["50,001", "50,000", "own line"]),
    ],
    ids=repr,
)
def test_what_is_no_text_is_refused_with_its_place(raw: bytes, words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        decode_line(raw, where="in.txt, line 7")
    assert str(caught.value).startswith("in.txt, line 7: ")
    assert [word for word in words if word not in str(caught.value)] == []
    assert "\n" not in str(caught.value)


def test_an_endless_line_is_not_read_to_its_end() -> None:
    stream = io.BytesIO(b"x" * 1_000_000)
    with pytest.raises(InputError, match=r"in\.txt, line 1: over 50,000 characters"):
        next(read_stream(stream, name="in.txt"))
    assert stream.tell() < 300_000


def test_standard_input_is_read_as_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever encoding the terminal has, and without its idea of line ends."""
    raw = io.BytesIO(f"Grüße\r\n{INSIDE}\n".encode() + b"\xff\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(raw, encoding="ascii"))
    lines = read_stdin()
    assert [next(lines), next(lines)] == ["Grüße\r", INSIDE]
    with pytest.raises(InputError, match="standard input, line 3"):
        next(lines)


@pytest.mark.parametrize("name", ["nowhere.txt", "", "file.txt/inside", "x" * 300])
def test_a_file_that_cannot_be_read_is_named(name: str, tmp_path: Path) -> None:
    write(tmp_path / "file.txt", "a\n")
    for use in (lambda path: list(read_lines(path)), count_lines):
        with pytest.raises(InputError, match="cannot be read") as caught:
            use(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)


# --- aligned files -------------------------------------------------------------------------------


def test_line_n_of_one_file_belongs_to_line_n_of_the_others(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / "src", f"1{INSIDE}\n2\n3"),
        write(tmp_path / "ref", "eins\n\ndrei\n"),
        write(tmp_path / "hyp", "un\ndeux\ntrois\n"),
    ]
    columns = [[f"1{INSIDE}", "2", "3"], ["eins", "", "drei"], ["un", "deux", "trois"]]
    assert read_aligned(*paths) == columns
    assert read_aligned(paths[1]) == columns[1:2]


@pytest.mark.parametrize(("counts", "said"), [((3, 3, 2), "file2 has 2"), ((0, 0), "empty")])
def test_files_of_different_length_or_empty_ones_are_refused(
    counts: tuple[int, ...], said: str, tmp_path: Path
) -> None:
    paths = [write(tmp_path / f"file{n}", "x\n" * count) for n, count in enumerate(counts)]
    with pytest.raises(InputError, match=said):
        read_aligned(*paths)


# --- writing -------------------------------------------------------------------------------------


def put(opened: AbstractContextManager[tuple[BinaryIO, int]], more: str) -> int:
    with opened as (file, n_lines):
        file.write(more.encode())
    return n_lines


@pytest.mark.parametrize(("overwrite", "carry_on"), [(True, False), (False, True)])
def test_a_new_file_starts_at_nothing(overwrite: bool, carry_on: bool, tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    assert put(open_output(path, overwrite=overwrite, carry_on=carry_on), "a\n") == 0
    assert path.read_bytes() == b"a\n"


def test_an_existing_file_is_left_alone_unless_asked(tmp_path: Path) -> None:
    path = write(tmp_path / "out.txt", "hours of work\n")
    with pytest.raises(InputError, match=r"out\.txt exists.*--continue.*--overwrite"):
        put(open_output(path, overwrite=False, carry_on=False), "lost")
    assert path.read_bytes() == b"hours of work\n"


@pytest.mark.parametrize("half", [b"", b"more hours\nof wo"])
def test_overwriting_that_fails_leaves_the_old_file_and_the_new_lines(
    half: bytes, tmp_path: Path
) -> None:
    path, names = write(tmp_path / "out.txt", "hours of work\n"), []

    def fail_half_way() -> None:
        with open_output(path, overwrite=True, carry_on=False) as (file, _):
            names.append(file.name)
            file.write(half)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    assert path.read_bytes() == b"hours of work\n"
    found = {each: each.read_bytes() for each in tmp_path.iterdir() if each != path}
    assert found == ({Path(names[0]): half} if half else {})


@pytest.mark.parametrize("mode", [0o600, 0o755])
def test_overwriting_keeps_a_link_and_who_may_read(mode: int, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    target, link = write(tmp_path / "far" / "secret.txt", "old\n"), tmp_path / "out.txt"
    target.chmod(mode)
    link.symlink_to(target)
    with open_output(link, overwrite=True, carry_on=False) as (file, _):
        assert Path(file.name).stat().st_mode & 0o777 == mode
        file.write(b"new\n")
    assert link.readlink() == target
    assert target.read_bytes() == b"new\n"
    assert target.stat().st_mode & 0o777 == mode
    assert [each.name for each in target.parent.iterdir()] == ["secret.txt"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_device_is_written_to_and_stays(overwrite: bool) -> None:
    path = Path(os.devnull)
    assert put(open_output(path, overwrite=overwrite, carry_on=False), "a\n") == 0
    assert path.is_char_device()


def test_a_job_cut_anywhere_ends_with_the_same_file(tmp_path: Path) -> None:
    """Wherever the interruption tears the output, going on with input line n completes it."""
    source = write(tmp_path / "in.txt", "Grüße\n\nമല\nx")
    wanted = "".join(f"<{line}>\n" for line in read_lines(source)).encode()
    for cut in range(len(wanted) + 1):
        path = write(tmp_path / "out.txt", wanted[:cut])
        with open_output(path, overwrite=False, carry_on=True) as (file, n_done):
            for line in read_lines(source, skip=n_done):
                file.write(f"<{line}>\n".encode())
        assert path.read_bytes() == wanted


@pytest.mark.parametrize("name", ["", "nowhere/out.txt", "file.txt/out.txt", "x" * 300])
@pytest.mark.parametrize("option", ["overwrite", "carry_on"])
def test_a_place_that_cannot_be_written_is_named(name: str, option: str, tmp_path: Path) -> None:
    write(tmp_path / "file.txt", "a\n")
    options = {"overwrite": False, "carry_on": False, option: True}
    with pytest.raises(InputError) as caught:
        put(open_output(tmp_path / name, **options), "lost")
    assert str(tmp_path / name) in str(caught.value)

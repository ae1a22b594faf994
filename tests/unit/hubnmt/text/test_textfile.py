"""Lines in and out: only a line feed ends one, nothing is read too early, no result is harmed."""

import io
from pathlib import Path

import pytest

from hubnmt.errors import InputError
from hubnmt.text.textfile import (
    open_output,
    read_aligned,
    read_lines,
    read_stream,
)

INSIDE = "a\u2028b\u2029c\x85d\x0be\x0cf\rg\x1ch\ufeff"
"""Everything Python or Unicode may call a line break, and a byte order mark: none ends a line."""


def write(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


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
        ("\ufeffa\r\n\ufeffb", ["a\r", "\ufeffb"]),
        ("\ufeff", [""]),
    ],
    ids=repr,
)
def test_only_a_line_feed_ends_a_line_and_a_byte_order_mark_in_front_is_no_text(
    content: str, lines: list[str], tmp_path: Path
) -> None:
    path = write(tmp_path / "in.txt", content)
    assert list(read_lines(path)) == lines
    assert list(read_stream(io.BytesIO(content.encode()), name="in")) == lines


def test_line_n_of_one_file_belongs_to_line_n_of_the_others(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / "src", f"1{INSIDE}\n2\n3"),
        write(tmp_path / "ref", "eins\n\ndrei\n"),
        write(tmp_path / "hyp", "un\ndeux\ntrois\n"),
    ]
    columns = [[f"1{INSIDE}", "2", "3"], ["eins", "", "drei"], ["un", "deux", "trois"]]
    assert read_aligned(*paths) == columns
    assert read_aligned(paths[1]) == columns[1:2]


@pytest.mark.parametrize("half", ["", "more hours\nof wo"])
def test_a_job_that_fails_leaves_the_old_file_and_the_new_lines(half: str, tmp_path: Path) -> None:
    path, part = write(tmp_path / "out.txt", "hours of work\n"), tmp_path / "out.txt.part"

    def write_lines(text: str, *, carry_on: bool) -> None:
        with open_output(path, overwrite=True, carry_on=carry_on) as (file, _):
            file.write(text.encode())
            if text == half:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_lines(half, carry_on=False)
    assert path.read_text() == "hours of work\n"
    assert part.exists() == bool(half)
    if half:
        assert part.read_text() == half
        with pytest.raises(InputError, match="is of an interrupted job: --continue"):
            write_lines("new\n", carry_on=False)
        write_lines("new\n", carry_on=True)
        assert path.read_text() == "more hours\nnew\n"
        assert not part.exists()


def test_a_job_cut_anywhere_ends_with_the_same_file(tmp_path: Path) -> None:
    """Wherever the interruption tears the output, going on with input line n completes it."""
    lines = ["Grüße", "", "മല", "x"]
    wanted = "".join(f"<{line}>\n" for line in lines).encode()
    for cut in range(len(wanted) + 1):
        path = write(tmp_path / "out.txt.part", wanted[:cut]).with_suffix("")
        with open_output(path, overwrite=True, carry_on=True) as (file, n_done):
            file.write("".join(f"<{line}>\n" for line in lines[n_done:]).encode())
        assert path.read_bytes() == wanted

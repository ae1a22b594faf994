"""Lines in and out: only a line feed ends one, nothing is read too early, no result is harmed."""

import io
from pathlib import Path

import pytest

from hubnmt.text.textfile import (
    count_lines,
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
    assert list(read_lines(path, skip=1)) == lines[1:]
    assert list(read_stream(io.BytesIO(content.encode()), name="in")) == lines
    assert count_lines(path) == len(lines)


def test_line_n_of_one_file_belongs_to_line_n_of_the_others(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / "src", f"1{INSIDE}\n2\n3"),
        write(tmp_path / "ref", "eins\n\ndrei\n"),
        write(tmp_path / "hyp", "un\ndeux\ntrois\n"),
    ]
    columns = [[f"1{INSIDE}", "2", "3"], ["eins", "", "drei"], ["un", "deux", "trois"]]
    assert read_aligned(*paths) == columns
    assert read_aligned(paths[1]) == columns[1:2]


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

import csv
import gzip
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hubnmt.errors import InputError
from hubnmt.ui.services import files
from hubnmt.ui.services.files import FileJob, Table, read_table, translate_file, write_table
from hubnmt.ui.services.registry import ModelRegistry
from tests.page import bundled_translator

N_ROWS = 40


SENTENCES = [f"Ein Hund rennt {n} mal." for n in range(39)] + ["Ein Mann lacht."]


def translate(texts: list[str]) -> list[str]:
    return [each.text for each in bundled_translator().translate(texts)]


@pytest.fixture
def upload(tmp_path: Path) -> str:
    """A table of numbered sentences."""
    path = tmp_path / "up load.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "de"])
        writer.writerows(enumerate(SENTENCES))
    return str(path)


def _run(registry: ModelRegistry, path: str, **options: Any) -> tuple[list[FileJob], FileJob, str]:
    """Translate a file; read the result while it is there."""
    steps = []
    for found in translate_file(registry, path, "", **options):
        steps.append(found)
        text = found.path.read_text() if found.path else ""
    *progress, result = steps
    return progress, result, text


def test_a_file_is_translated_in_chunks_with_progress(registry: ModelRegistry, upload: str):
    progress, result, text = _run(registry, upload, source="de")
    assert [step.n_done for step in progress] == list(range(0, N_ROWS, files.CHUNK_ROWS))
    assert {step.n_rows for step in progress} == {N_ROWS} == {result.n_rows}
    rows = list(csv.reader(text.splitlines()))
    assert [row[2] for row in rows] == ["translation", *translate(SENTENCES)]
    with pytest.raises(InputError, match="no column is chosen; choose one of: id, de"):
        _run(registry, upload)


def test_a_semicolon_separates_columns_as_in_a_german_spreadsheet(
    registry: ModelRegistry, tmp_path: Path
):
    path = tmp_path / "Liste.csv"
    path.write_bytes("\ufeffNr;Deutsch\r\n1;Ein Hund, du\r\n2;7\r\n".encode())
    _, result, text = _run(registry, str(path), source="Deutsch")
    first, second = bundled_translator().translate(["Ein Hund, du", "7"])
    rows = list(csv.reader(text.splitlines(), delimiter=";"))
    assert rows[:2] == [["Nr", "Deutsch", "translation"], ["1", "Ein Hund, du", first.text]]
    assert second.warnings
    assert result.warnings == ((2, second.warnings),)


@pytest.mark.parametrize(
    ("name", "result"),
    [("letter.txt", "letter.en.txt"), ("letter.de.TXT", "letter.en.txt"), ("x" * 90, "x" * 60)],
)
def test_a_translation_is_called_like_its_source(
    registry: ModelRegistry, tmp_path: Path, name: str, result: str
):
    path = tmp_path / (name if "." in name else f"{name}.txt")
    path.write_text("ein hund\n")
    found = _run(registry, str(path))[1]
    assert found.path
    assert found.path.name == (result if "." in result else f"{result}.en.txt")


# --- Reading and writing ---


def _read(folder: Path, name: str, content: str | bytes, **options: bool) -> Table:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_table(path, **options)


@pytest.mark.parametrize("kind", [".tsv", ".csv"])
@pytest.mark.parametrize(
    ("source", "text", "written"),
    [
        ("Summe", "=1+1", "'=1+1"),
        ("Summe", " @SUM(A1)", "' @SUM(A1)"),
        ("Summe", "-cmd|' /C calc'!A0", "'-cmd|' /C calc'!A0"),
        ("Summe", "\uff1d1+1", "'\uff1d1+1"),
        ("- Ja.", "- Yes.", "- Yes."),  # two people speaking, as in subtitles
        ("Ja.", "Yes - 1", "Yes - 1"),
    ],
)
def test_a_formula_that_the_translation_made_is_text_to_a_spreadsheet(
    tmp_path: Path, kind: str, source: str, text: str, written: str
):
    table = _read(tmp_path, f"a{kind}", f"src\n{source}\n")
    again = _read(tmp_path, f"b{kind}", write_table(table, [text], [source]))
    assert again.column("translation") == [written]


def test_a_packed_file_is_no_table(tmp_path: Path):
    for kind in files.KINDS:
        for packed in (gzip.compress(bytes(10**7)), zlib.compress(bytes(10**7))):
            with pytest.raises(InputError, match="the file, line 1"):
                _read(tmp_path, f"a{kind}", packed)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.exe", "text", "unsupported file type; upload .txt or .tsv"),
        ("txt", "text", "unsupported file type"),
        ("a.txt", "", "no lines"),
        ("a.csv", "a,b\n", "no lines"),
        ("a.txt", b"\xff\xfe\x00", "line 1: not valid UTF-8"),
        ("a.txt", "one\nt\0o", "line 2: contains a null byte"),
        ("a.tsv", "a\tb\n1\t2\n3\n", "line 3: 1 columns, but the first line has 2"),
        ("a.tsv", "a\ta\n1\t2\n", "two columns named 'a'"),
        ("a.csv", 'a\n"open', "not valid CSV"),
        ("a.csv", 'a\n"' + ("x" * 40_000 + "\n") * 4 + '"', "not valid CSV"),
        ("a.csv", "a\n" + "x" * 200_000, "line 2: 200,000 characters"),
        ("a.tsv", "\t".join(map(str, range(101))) + "\n", "101 columns; at most 100"),
    ],
)
def test_what_cannot_be_read_is_said_without_our_path(
    tmp_path: Path, name: str, content: str | bytes, said: str
):
    with pytest.raises(InputError, match=said) as caught:
        _read(tmp_path, name, content)
    assert str(tmp_path) not in str(caught.value)


def test_a_file_too_long_or_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(files, "MAX_ROWS", 3)
    assert len(_read(tmp_path, "a.tsv", "head\n" + "a\n" * 3).rows) == 3
    for name, content in (("a.tsv", "head\n" + "a\n" * 4), ("a.txt", "a\n" * 5)):
        with pytest.raises(InputError, match="more than 3 lines"):
            _read(tmp_path, name, content)
    monkeypatch.setattr(files, "MAX_FILE_MIB", 0)
    with pytest.raises(InputError, match="larger than 0 MiB"):
        _read(tmp_path, "a.txt", "a")


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    kind=st.sampled_from(sorted(files.KINDS)),
    content=st.one_of(
        st.binary(max_size=200),
        st.text(max_size=200).map(str.encode),
        st.text('ab,;"\t\r\n=\x00é', max_size=80).map(str.encode),
    ),
    has_header=st.booleans(),
)
def test_any_file_is_read_and_written_again_or_refused(
    kind: str, content: bytes, has_header: bool, tmp_path: Path
):
    path = tmp_path / f"any{kind}"
    path.write_bytes(content)
    try:
        table = read_table(path, has_header=has_header)
        sources = table.column(table.columns[0])
    except InputError:
        return
    path.write_text(write_table(table, sources, sources), encoding="utf-8", newline="")
    assert len(read_table(path).rows) == len(table.rows)

import csv
import gzip
import io
import json
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hubnmt.errors import InputError
from hubnmt.ui.services import tables
from hubnmt.ui.services.tables import Table, read_table, write_table

TEXTS = ["Ein Hund, der rennt.", 'Sie sagt "ja".', "മഞ്ഞിൽ ഒരു നായ"]


def _read(folder: Path, name: str, content: str | bytes, **options: bool) -> Table:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_table(path, **options)


def _csv(*rows: list[str]) -> str:
    file = io.StringIO()
    csv.writer(file).writerows(rows)
    return file.getvalue()


def test_each_line_of_a_text_is_a_row_blank_ones_too(tmp_path: Path):
    table = _read(tmp_path, "a.txt", "eins\r\n\nzwei\u2028drei")
    assert table.column("text") == ["eins", "", "zwei\u2028drei"]


def test_columns_are_named_by_the_first_line_or_by_number(tmp_path: Path):
    content = "de\ten\nHund\tdog\nKatze\tcat\n"
    table = _read(tmp_path, "a.tsv", content)
    assert table.columns == ("de", "en")
    assert table.column("en") == ["dog", "cat"]
    table = _read(tmp_path, "a.tsv", content, has_header=False)
    assert table.columns == ("column 1", "column 2")
    assert table.column("column 1") == ["de", "Hund", "Katze"]


def test_csv_cells_may_hold_commas_quotes_and_lines(tmp_path: Path):
    cells = [*TEXTS, "two\nlines"]
    table = _read(tmp_path, "a.CSV", "\ufeff" + _csv(["id", "src"], *(["1", c] for c in cells)))
    assert table.column("src") == cells


def test_json_lines_keep_what_is_no_text(tmp_path: Path):
    rows = [{"n": 1, "src": text, "more": [None]} for text in TEXTS]
    content = "\n\n".join(json.dumps(row) for row in rows)
    table = _read(tmp_path, "a.jsonl", content)
    assert table.columns == ("src",)
    assert table.column("src") == TEXTS
    written = [json.loads(line) for line in write_table(table, TEXTS).splitlines()]
    assert written == [row | {"translation": row["src"]} for row in rows]


@pytest.mark.parametrize("kind", [".tsv", ".csv", ".jsonl"])
def test_what_is_written_can_be_read_and_has_one_column_more(tmp_path: Path, kind: str):
    rows = tuple({"id": str(n), "src": text} for n, text in enumerate(TEXTS))
    table = Table(kind, ("id", "src"), rows)
    again = _read(tmp_path, f"a{kind}", write_table(table, ["x, y", 'z "q"', "w"]))
    assert again.columns == ("id", "src", "translation")
    assert again.column("src") == TEXTS
    assert again.column("translation") == ["x, y", 'z "q"', "w"]


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
    again = _read(tmp_path, f"b{kind}", write_table(table, [text], "src"))
    assert again.column("translation") == [written]


def test_a_packed_file_is_no_table(tmp_path: Path):
    for kind in tables.KINDS:
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
        ("a.jsonl", '{"a": "b"}\n{', "line 2: not valid JSON"),
        ("a.jsonl", "[" * 40_000, "line 1: not valid JSON"),
        ("a.jsonl", '["a"]', "line 1: not a JSON object"),
        ("a.jsonl", '{"a": 1}', "no value of this JSON object is a string"),
        ("a.tsv", "\t".join(map(str, range(101))) + "\n", "101 columns; at most 100"),
    ],
)
def test_what_cannot_be_read_is_said_without_our_path(
    tmp_path: Path, name: str, content: str | bytes, said: str
):
    with pytest.raises(InputError, match=said) as caught:
        _read(tmp_path, name, content)
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.parametrize(
    "row", ['"a": "b \\ud800"', '"a": "b", "\\udc00": [1]', '"a": "b", "c": [{"d": "\\ud800"}]']
)
def test_half_a_character_is_refused_wherever_a_row_has_it(tmp_path: Path, row: str):
    with pytest.raises(InputError, match="line 2, contains an unpaired surrogate"):
        _read(tmp_path, "a.jsonl", f'{{"a": "\\ud83d\\ude00"}}\n{{{row}}}\n')


def test_a_file_too_long_or_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tables, "MAX_ROWS", 3)
    assert len(_read(tmp_path, "a.tsv", "head\n" + "a\n" * 3).rows) == 3
    for name, content in (("a.tsv", "head\n" + "a\n" * 4), ("a.txt", "a\n" * 5)):
        with pytest.raises(InputError, match="more than 3 lines"):
            _read(tmp_path, name, content)
    monkeypatch.setattr(tables, "MAX_FILE_MIB", 0)
    with pytest.raises(InputError, match="larger than 0 MiB"):
        _read(tmp_path, "a.txt", "a")


def test_a_missing_column_or_cell_is_named(tmp_path: Path):
    table = _read(tmp_path, "a.jsonl", '{"a": "x"}\n{"a": 2}\n')
    with pytest.raises(InputError, match="no column 'b'; its columns are: a"):
        table.column("b")
    with pytest.raises(InputError, match="row 2 of the file has no text in column 'a'"):
        table.column("a")


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    kind=st.sampled_from(sorted(tables.KINDS)),
    content=st.one_of(
        st.binary(max_size=200),
        st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")),
        st.text('ab,"\t\r\n{}[]:=\x00\ud800é', max_size=80).map(
            lambda text: text.encode("utf-8", "surrogatepass")
        ),
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
    path.write_text(write_table(table, sources, table.columns[0]), encoding="utf-8", newline="")
    assert len(read_table(path).rows) == len(table.rows)

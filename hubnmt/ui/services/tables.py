"""Read uploaded txt, tsv, csv and jsonl files, and write them back with a column of translations.

Only the extension of an uploaded name is used.
"""

import csv
import dataclasses
import io
import itertools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hubnmt.errors import InputError
from hubnmt.text.textfile import read_stream
from hubnmt.ui.services.limits import check_characters

MAX_FILE_MIB = 5
"""Maximum upload size; larger files belong to the command line."""

MAX_ROWS = 5_000
"""Maximum number of rows: a few minutes on two cores."""

MAX_COLUMNS = 100
"""Maximum number of columns: they are listed in a dropdown."""

TEXT_COLUMN = "text"
"""Name of the only column of a plain text file."""


QUOTED = re.compile('"[^"]*"')
"""A cell of a csv file that may contain a delimiter."""

FORMULA_SIGNS = frozenset("=+-@＝＋－＠")
"""First characters of cells that spreadsheets evaluate, including full-width variants."""


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """Parsed contents of a file."""

    kind: str
    """One of `KINDS`."""
    columns: tuple[str, ...]
    """Names of the text columns, in file order."""
    rows: tuple[dict[str, Any], ...]
    """Column -> value for each row; JSON values may be of any type."""
    delimiter: str = ","
    """Between the cells of a csv file."""

    def column(self, name: str) -> list[str]:
        """Return one column.

        Raises:
            InputError: if the column does not exist, or a row's value in it is not text.
        """
        if name not in self.columns:
            raise InputError(
                f"the file has no column {name[:80]!r}; its columns are: {', '.join(self.columns)}"
            )
        cells = [cell for row in self.rows if isinstance(cell := row.get(name), str)]
        if len(cells) < len(self.rows):
            wrong = next(n for n, row in enumerate(self.rows, 1) if type(row.get(name)) is not str)
            raise InputError(f"row {wrong:,} of the file has no text in column {name[:80]!r}")
        return cells


def read_table(path: Path, *, has_header: bool = True) -> Table:
    """Read a file of one of the `KINDS`.

    Args:
        path: the file; its extension determines the format.
        has_header: whether the first line of a tsv or csv file contains column names.

    Raises:
        InputError: naming line and remedy, but not the path, which is internal to the server.
    """
    kind = path.suffix.lower()
    if kind not in KINDS:
        raise InputError(f"unsupported file type; upload {' or '.join(KINDS)}")
    if path.stat().st_size > MAX_FILE_MIB * 2**20:
        raise InputError(
            f"the file is larger than {MAX_FILE_MIB} MiB; split it, "
            "or use the command: hubnmt translate --input FILE"
        )
    with path.open("rb") as file:
        table = KINDS[kind](read_stream(file, name="the file"), has_header)
    if not table.rows:
        raise InputError("the file contains no lines to translate")
    return table


def _read_text(lines: Iterator[str], has_header: bool) -> Table:
    rows = [{TEXT_COLUMN: line} for _, line in _numbered(lines)]
    return Table(".txt", (TEXT_COLUMN,), tuple(rows))


def _read_tsv(lines: Iterator[str], has_header: bool) -> Table:
    cells = ((n, line.split("\t")) for n, line in _numbered(lines) if line.strip())
    return _tabulate(".tsv", cells, has_header)


def _read_csv(lines: Iterator[str], has_header: bool) -> Table:
    first = next(lines, "")
    delimiter = max(",;", key=QUOTED.sub("", first).count)
    numbered = _numbered(itertools.chain([first], lines))
    reader = csv.reader((f"{line}\n" for _, line in numbered), delimiter=delimiter, strict=True)

    def cells() -> Iterator[tuple[int, list[str]]]:
        try:
            yield from ((reader.line_num, row) for row in reader if row)
        except csv.Error as error:
            raise InputError(
                f"the file, line {reader.line_num:,}: not valid CSV ({error})"
            ) from None

    return dataclasses.replace(_tabulate(".csv", cells(), has_header), delimiter=delimiter)


def _tabulate(kind: str, cells: Iterator[tuple[int, list[str]]], has_header: bool) -> Table:
    """Build a table from rows of cells, checking that all have the same length."""
    columns: tuple[str, ...] = ()
    rows = []
    for number, row in cells:
        if not columns:
            names = row if has_header else [""] * len(row)
            columns = _check_names([n.strip() or f"column {i}" for i, n in enumerate(names, 1)])
            if has_header:
                continue
        if len(row) != len(columns):
            raise InputError(
                f"the file, line {number:,}: {len(row)} columns, but the first line has "
                f"{len(columns)}"
            )
        rows.append(dict(zip(columns, row, strict=True)))
    return Table(kind, columns, tuple(rows))


def _check_names(names: Sequence[str]) -> tuple[str, ...]:
    if len(names) > MAX_COLUMNS:
        raise InputError(f"the file has {len(names)} columns; at most {MAX_COLUMNS} are allowed")
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        raise InputError(f"the file has two columns named {duplicate[:80]!r}; rename one")
    return tuple(names)


def _read_jsonl(lines: Iterator[str], has_header: bool) -> Table:
    rows = []
    for number, line in _numbered(lines):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            written = json.dumps(row, ensure_ascii=False)  # as the output file will contain it
        except (ValueError, RecursionError):
            raise InputError(f"the file, line {number:,}: not valid JSON") from None
        check_characters(written, f"the file, line {number:,},")
        if not isinstance(row, dict):
            raise InputError(f"the file, line {number:,}: not a JSON object, {{...}}")
        rows.append(row)
    columns = [name for name, value in rows[0].items() if isinstance(value, str)] if rows else []
    if rows and not columns:
        raise InputError("the file, line 1: no value of this JSON object is a string")
    return Table(".jsonl", _check_names(columns), tuple(rows))


KINDS: dict[str, Callable[[Iterator[str], bool], Table]] = {
    ".txt": _read_text,
    ".tsv": _read_tsv,
    ".csv": _read_csv,
    ".jsonl": _read_jsonl,
}
"""Extension -> reader."""


def _numbered(lines: Iterator[str]) -> Iterator[tuple[int, str]]:
    """Number lines from 1 and strip carriage returns.

    Raises:
        InputError: after the last allowed line, if more follow.
    """
    for number, line in enumerate(lines, 1):
        if number > MAX_ROWS + 1:  # plus a header
            break
        yield number, line.removesuffix("\r")
    else:
        return
    raise InputError(
        f"the file has more than {MAX_ROWS:,} lines; split it, "
        "or use the command: hubnmt translate --input FILE"
    )


def write_table(table: Table, translations: Sequence[str], source: str = "") -> str:
    """Return a file of the same format with the translations of the first rows in a new column.

    A plain text file consists of the translations only, one per line. In tsv and csv, a translation
    that starts like a spreadsheet formula is prefixed with an apostrophe, unless its source does
    too. Source: https://owasp.org/www-community/attacks/CSV_Injection
    """
    if table.kind == ".txt":
        return "".join(f"{_one_line(text)}\n" for text in translations)
    name = _free_name("translation", (name for row in table.rows for name in row))
    done = table.rows[: len(translations)]
    rows = [{**row, name: text} for row, text in zip(done, translations, strict=True)]
    if table.kind == ".jsonl":
        return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    for row in rows:
        row[name] = _quote_formula(row[name], row.get(source, ""))
    lines = [[*table.columns, name], *(list(row.values()) for row in rows)]
    if table.kind == ".tsv":
        return "".join("\t".join(map(_one_line, line)) + "\n" for line in lines)
    file = io.StringIO()
    csv.writer(file, delimiter=table.delimiter, lineterminator="\n").writerows(lines)
    return file.getvalue()


def _quote_formula(text: str, source: str) -> str:
    first = text.lstrip()[:1]
    return f"'{text}" if first in FORMULA_SIGNS and first != source.lstrip()[:1] else text


def _one_line(text: str) -> str:
    return " ".join(text.replace("\t", " ").splitlines())


def _free_name(wanted: str, taken: Iterator[str]) -> str:
    names = set(taken)
    n = 1
    while (name := wanted if n == 1 else f"{wanted} {n}") in names:
        n += 1
    return name

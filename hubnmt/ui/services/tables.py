"""Read uploaded txt, tsv, csv and jsonl files, and write them back with a column of translations.

Only the extension of an uploaded name is used.
"""

import csv
import dataclasses
import io
import itertools
import json
import re
from collections.abc import Sequence
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

KINDS = (".txt", ".tsv", ".csv", ".jsonl")

TEXT_COLUMN = "text"
"""Name of the only column of a plain text file."""

QUOTED = re.compile('"[^"]*"')
"""A cell of a csv file that may contain a delimiter."""

FORMULA_SIGNS = frozenset("=+-@＝＋－＠")
"""First characters of cells that spreadsheets evaluate, including full-width variants."""

SPLIT = "split it, or use the command: hubnmt translate --input FILE"


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """Parsed contents of a file."""

    kind: str
    """One of `KINDS`."""
    columns: tuple[str, ...]
    """Names of the text columns, in file order."""
    rows: list[dict[str, Any]]
    """Column -> value for each row; JSON values may be of any type."""
    delimiter: str = ","
    """Between the cells of a csv file."""

    def column(self, name: str) -> list[str]:
        """Return one column, all values of which must be texts."""
        if name not in self.columns:
            problem = f"the file has no column {name[:80]!r}" if name else "choose a column"
            raise InputError(f"{problem}; its columns are: {', '.join(self.columns)}")
        for number, row in enumerate(self.rows, 1):
            if not isinstance(row.get(name), str):
                raise InputError(f"row {number:,} of the file has no text in column {name[:80]!r}")
        return [row[name] for row in self.rows]


def read_table(path: Path, *, has_header: bool = True) -> Table:
    """Read a file, whose extension is one of the `KINDS`.

    `has_header` says whether the first line of a tsv or csv file contains column names. Errors name
    line and remedy, but not the path, which is internal to the server.
    """
    kind = path.suffix.lower()
    if kind not in KINDS:
        raise InputError(f"unsupported file type; upload {' or '.join(KINDS)}")
    if path.stat().st_size > MAX_FILE_MIB * 2**20:
        raise InputError(f"the file is larger than {MAX_FILE_MIB} MiB; {SPLIT}")
    most = MAX_ROWS + 1  # plus a header
    with path.open("rb") as file:
        lines = list(itertools.islice(read_stream(file, name="the file"), most + 1))
    if len(lines) > most:
        raise InputError(f"the file has more than {MAX_ROWS:,} lines; {SPLIT}")
    lines = [line.removesuffix("\r") for line in lines]
    if kind == ".txt":
        table = Table(kind, (TEXT_COLUMN,), [{TEXT_COLUMN: line} for line in lines])
    elif kind == ".jsonl":
        table = _parse_json(lines)
    else:
        table = _parse_cells(lines, kind, has_header)
    if not table.rows:
        raise InputError("the file contains no lines to translate")
    return table


def _parse_cells(lines: Sequence[str], kind: str, has_header: bool) -> Table:
    first = QUOTED.sub("", lines[0]) if lines else ""
    delimiter = "\t" if kind == ".tsv" else max(",;\t", key=first.count)
    reader = csv.reader(
        (f"{line}\n" for line in lines),
        delimiter=delimiter,
        quoting=csv.QUOTE_NONE if kind == ".tsv" else csv.QUOTE_MINIMAL,
        strict=True,
    )
    try:
        numbered = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        where = f"the file, line {reader.line_num:,}"
        raise InputError(f"{where}: not valid {kind[1:].upper()} ({error})") from None
    if not numbered:
        return Table(kind, (), [])
    names = numbered[0][1] if has_header else [""] * len(numbered[0][1])
    columns = [name.strip() or f"column {n}" for n, name in enumerate(names, 1)]
    for number, row in numbered:
        if len(row) != len(columns):
            raise InputError(
                f"the file, line {number:,}: {len(row)} columns, but the first line has "
                f"{len(columns)}"
            )
    rows = [dict(zip(columns, row, strict=True)) for _, row in numbered[int(has_header) :]]
    return Table(kind, _check_names(columns), rows, delimiter)


def _parse_json(lines: Sequence[str]) -> Table:
    rows = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"the file, line {number:,}"
        try:
            row = json.loads(line)
            written = json.dumps(row, ensure_ascii=False)  # as the output file will contain it
        except (ValueError, RecursionError):
            raise InputError(f"{where}: not valid JSON") from None
        check_characters(written, f"{where},")
        if not isinstance(row, dict):
            raise InputError(f"{where}: not a JSON object, {{...}}")
        rows.append(row)
    columns = [name for name, value in rows[0].items() if isinstance(value, str)] if rows else []
    if rows and not columns:
        raise InputError("the file, line 1: no value of this JSON object is a string")
    return Table(".jsonl", _check_names(columns), rows)


def _check_names(names: Sequence[str]) -> tuple[str, ...]:
    if len(names) > MAX_COLUMNS:
        raise InputError(f"the file has {len(names)} columns; at most {MAX_COLUMNS} are allowed")
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        raise InputError(f"the file has two columns named {duplicate[:80]!r}; rename one")
    return tuple(names)


def write_table(table: Table, translations: Sequence[str], source: str = "") -> str:
    """Return a file of the same format with the translations of the first rows in a new column.

    A plain text file consists of the translations only, one per line. In tsv and csv, a translation
    that starts like a spreadsheet formula is prefixed with an apostrophe, unless its source does
    too. Source: https://owasp.org/www-community/attacks/CSV_Injection
    """
    if table.kind == ".txt":
        return "".join(f"{_one_line(text)}\n" for text in translations)
    taken = {name for row in table.rows for name in row}
    numbered = (f"translation {n}" for n in itertools.count(2))
    name = next(name for name in itertools.chain(["translation"], numbered) if name not in taken)
    done = table.rows[: len(translations)]
    if table.kind == ".jsonl":
        rows = ({**row, name: text} for row, text in zip(done, translations, strict=True))
        return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    lines = [[*table.columns, name]]
    for row, text in zip(done, translations, strict=True):
        lines.append([*row.values(), _quote_formula(text, row.get(source, ""))])
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

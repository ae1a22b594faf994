"""Translation of uploaded txt, tsv and csv files, with progress.

Of an upload's name the extension decides on the format; the result has the name and the language.
"""

import contextlib
import csv
import dataclasses
import io
import itertools
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Unpack

from hubnmt.config import DecodingOptions
from hubnmt.errors import InputError
from hubnmt.text.textfile import read_stream
from hubnmt.types import Translation
from hubnmt.ui.services import limits
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.turns import TURNS, AbandonedError

KINDS = (".txt", ".tsv", ".csv")

MAX_FILE_MIB = 5
"""Maximum upload size; larger files belong to the command line."""

MAX_ROWS = 5_000
"""Maximum number of rows: a few minutes on two cores."""

MAX_COLUMNS = 100
"""Maximum number of columns: they are listed in a dropdown."""

MAX_NAME_CHARS = 60
"""Maximum length of the name of a result, without its extension."""

CHUNK_ROWS, CHUNK_WORK = 16, 10_000
"""Maximum rows, and characters times hypotheses, of a chunk: about half a second. Between chunks
progress is reported, cancellation takes effect, and others have their turn."""

QUOTED = re.compile('"[^"]*"')
"""A cell of a csv file that may contain a delimiter."""

FORMULA_SIGNS = frozenset("=+-@＝＋－＠")
"""First characters of cells that spreadsheets evaluate, including full-width variants."""

SPLIT = "split it, or use the command: hubnmt translate --input FILE"


class RowWarnings(NamedTuple):
    """A row, counted from 1 without the header, whose translation has warnings."""

    row: int
    warnings: tuple[str, ...]


class FileJob(NamedTuple):
    """Progress of a file job, and in the end its result."""

    n_done: int
    """In the end fewer than `n_rows` if the job was cancelled; then the file ends there."""
    n_rows: int
    seconds: float
    path: Path | None = None
    """The translated file; valid until the iterator that yielded it is advanced."""
    warnings: tuple[RowWarnings, ...] = ()


def translate_file(
    registry: ModelRegistry,
    path: str | None,
    model: str,
    *,
    source: str = "",
    has_header: bool = True,
    **options: Unpack[DecodingOptions],
) -> Iterator[FileJob]:
    """Translate a column of a file in chunks; `source` may be empty if there is only one column.

    Yields:
        progress, then the result, also of a cancelled job. Its file is deleted when the iterator
        ends.
    """
    # 1. Check the request.
    translator = registry.get(model)
    decoding = translator.decoding.with_options(**options)
    if not path:
        raise InputError("there is no file yet: upload one first")
    upload = Path(path)
    table = read_table(upload, has_header=has_header)
    if not source and len(table.columns) == 1:
        source = table.columns[0]
    sources = table.column(source)
    limits.check_rows(sources, decoding)
    # 2. Translate; what is done is kept if the job is cancelled.
    started = time.perf_counter()
    found: list[Translation] = []
    with contextlib.suppress(AbandonedError):
        for chunk in _chunks(sources, limits.count_hypotheses(decoding)):
            yield FileJob(len(found), len(sources), time.perf_counter() - started)
            with TURNS.turn():
                found += translator.translate(sources[chunk], decoding=decoding)
    # 3. Write.
    texts = [translation.text for translation in found]
    stem = upload.stem.removesuffix(f".{translator.config.src_lang}")[:MAX_NAME_CHARS]
    with tempfile.TemporaryDirectory(prefix="hubnmt-") as folder:
        result = Path(folder, f"{stem}.{translator.config.tgt_lang}{upload.suffix.lower()}")
        result.write_text(write_table(table, texts, sources), encoding="utf-8", newline="")
        warnings = (RowWarnings(row, each.warnings) for row, each in enumerate(found, 1))
        yield FileJob(
            n_done=len(texts),
            n_rows=len(sources),
            seconds=time.perf_counter() - started,
            path=result,
            warnings=tuple(row for row in warnings if row.warnings),
        )


def _chunks(rows: Sequence[str], n_hypotheses: int) -> Iterator[slice]:
    """Split rows into chunks of at most `CHUNK_ROWS` and about `CHUNK_WORK`."""
    start = n_chars = 0
    for end, row in enumerate(rows):
        is_full = (n_chars + len(row)) * n_hypotheses > CHUNK_WORK
        if end > start and (end - start >= CHUNK_ROWS or is_full):
            yield slice(start, end)
            start, n_chars = end, 0
        n_chars += len(row)
    yield slice(start, len(rows))


# --- Reading and writing ---


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """Parsed contents of a file."""

    kind: str
    """One of `KINDS`."""
    columns: list[str]
    rows: list[list[str]]
    delimiter: str = ","
    """Between the cells of a csv file."""

    def column(self, name: str) -> list[str]:
        """Return one column."""
        if name not in self.columns:
            problem = f"the file has no column {name[:80]!r}" if name else "no column is chosen"
            raise InputError(f"{problem}; choose one of: {', '.join(self.columns)}")
        place = self.columns.index(name)
        return [row[place] for row in self.rows]


def read_table(path: Path, *, has_header: bool = True) -> Table:
    """Read a file.

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
        table = Table(kind, ["text"], [[line] for line in lines])
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
    rows = [row for _, row in numbered]
    names = rows.pop(0) if rows and has_header else [""] * len(numbered[0][1] if numbered else "")
    columns = [name.strip() or f"column {n}" for n, name in enumerate(names, 1)]
    for number, row in numbered:
        if len(row) != len(columns):
            raise InputError(
                f"the file, line {number:,}: {len(row)} columns, but the first line has "
                f"{len(columns)}"
            )
    if len(columns) > MAX_COLUMNS:
        raise InputError(f"the file has {len(columns)} columns; at most {MAX_COLUMNS} are allowed")
    duplicate = next((name for name in columns if columns.count(name) > 1), None)
    if duplicate is not None:
        raise InputError(f"the file has two columns named {duplicate[:80]!r}; rename one")
    return Table(kind, columns, rows, delimiter)


def write_table(table: Table, translations: Sequence[str], sources: Sequence[str]) -> str:
    """Return a file of the same format with the translations of the first rows in a new column.

    A plain text file consists of the translations only, one per line. In tsv and csv, a translation
    that starts like a spreadsheet formula is prefixed with an apostrophe, unless its source does
    too. Source: https://owasp.org/www-community/attacks/CSV_Injection
    """
    if table.kind == ".txt":
        return "".join(f"{_one_line(text)}\n" for text in translations)
    names = itertools.chain(["translation"], (f"translation {n}" for n in itertools.count(2)))
    lines = [[*table.columns, next(name for name in names if name not in table.columns)]]
    for row, text, source in zip(table.rows, translations, sources, strict=False):
        lines.append([*row, _quote_formula(text, source)])
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

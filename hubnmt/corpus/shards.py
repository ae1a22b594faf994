"""The files of a corpus: list them, read their texts, and write them with columns added.

Files may be on any file system that fsspec knows, such as the Hub (`hf://datasets/...`). A row that
cannot be read has no text and stays in its place; all others keep their columns as they are.
"""

import contextlib
import csv
import io
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, ClassVar, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.core import url_to_fs

from hubnmt.errors import HubNMTError, InputError, first_few, shorten
from hubnmt.text.textfile import NO_ROOM, check_line

CHUNK_ROWS = 1_024
"""Rows read and written at once."""
MAX_ROW_CHARS = 2**23
"""The rest of a longer line is not read, which bounds the memory for one row."""

Added: TypeAlias = Mapping[str, Sequence[Any]]
"""New columns of a chunk: their names and values."""


class Shard(NamedTuple):
    """One file of a corpus."""

    url: str
    """Its address, with protocol."""
    name: str
    """Its path below the folder of the corpus, and below the output folder."""


class ParquetReader:
    """Parquet: columns of any type."""

    def __init__(self, file: BinaryIO, only: str | None = None) -> None:
        """Read the schema; with `only`, the chunks have just that column."""
        self._file = pq.ParquetFile(file)
        self._only = only
        self.columns: list[str] = self._file.schema_arrow.names

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield record batches."""
        columns = [self._only] if self._only else None
        return self._file.iter_batches(CHUNK_ROWS, columns=columns)  # type: ignore[no-any-return]  # pyarrow has no types

    def cells(self, chunk: pa.RecordBatch, column: str) -> list[Any]:
        """Return the values of one column."""
        return chunk.column(column).to_pylist()  # type: ignore[no-any-return]  # as above

    def write(
        self, file: BinaryIO, types: Mapping[str, str], chunks: Iterable[tuple[Any, Added]]
    ) -> None:
        """Write record batches; metadata that describes the old columns is dropped."""
        schema = self._file.schema_arrow.remove_metadata()
        for name, kind in types.items():
            schema = schema.append(pa.field(name, pa.type_for_alias(kind)))
        with pq.ParquetWriter(file, schema) as writer:
            for batch, added in chunks:
                columns = [pa.array(added[name], schema.field(name).type) for name in types]
                writer.write_batch(pa.record_batch([*batch.columns, *columns], schema=schema))


class TextReader:
    """One text per line; the output has the translations only. Base of the other text formats."""

    columns: list[str] | None = None
    """Names of the columns; None if each row has its own."""

    def __init__(self, file: BinaryIO, only: str | None = None) -> None:
        """Start at the beginning of a file."""
        del only
        self._lines = _read_lines(file)

    def __iter__(self) -> Iterator[list[Any]]:
        """Yield lists of rows; an `InputError` stands for one that cannot be read."""
        rows = self._rows()
        while chunk := list(itertools.islice(rows, CHUNK_ROWS)):
            yield chunk

    def cells(self, chunk: list[Any], column: str) -> list[Any]:
        """Return one cell of each row."""
        return [row if isinstance(row, InputError) else self._cell(row, column) for row in chunk]

    def write(
        self, file: BinaryIO, types: Mapping[str, str], chunks: Iterable[tuple[Any, Added]]
    ) -> None:
        """Write one line per row; one that cannot be read has its new cells only."""
        text = io.TextIOWrapper(file, "utf-8", "surrogateescape", newline="\n")
        text.write(self._header(types))
        for rows, added in chunks:
            for row, *cells in zip(rows, *(added[name] for name in types), strict=True):
                is_bad = isinstance(row, InputError)
                text.write(
                    self._line(None if is_bad else row, dict(zip(types, cells, strict=True)))
                )
        text.detach()  # flushes, and leaves the file open

    def _rows(self) -> Iterator[Any]:
        return (line.removesuffix("\n") for line in self._lines)

    def _cell(self, row: Any, column: str) -> Any:
        return row

    def _header(self, new: Iterable[str]) -> str:
        return ""

    def _line(self, row: Any, new: dict[str, Any]) -> str:
        return f"{_one_line(next(iter(new.values())))}\n"


class JsonlReader(TextReader):
    """One JSON object per line; blank lines are no rows."""

    def _rows(self) -> Iterator[Any]:
        return (_parse_object(line) for line in self._lines if line.strip())

    def _cell(self, row: dict[str, Any], column: str) -> Any:
        return row.get(column)

    def _line(self, row: dict[str, Any] | None, new: dict[str, Any]) -> str:
        return json.dumps({**(row or {}), **new}, ensure_ascii=False) + "\n"


class CsvReader(TextReader):
    """Comma-separated values with a header and quotes."""

    dialect: ClassVar[dict[str, Any]] = {"strict": True, "lineterminator": "\n"}

    def __init__(self, file: BinaryIO, only: str | None = None) -> None:
        """Read the header."""
        super().__init__(file, only)
        self._records = csv.reader(self._lines, **self.dialect)
        self.columns: list[str] = next(self._records, [])

    def _rows(self) -> Iterator[Any]:
        while True:
            try:
                row = next(self._records)
            except StopIteration:
                return
            except csv.Error as error:
                yield InputError(f"invalid row ({error})")
                continue
            if len(row) == len(self.columns):
                yield row
            elif row:  # not a blank line
                yield InputError(f"{len(row)} cells, but the header has {len(self.columns)}")

    def _cell(self, row: list[str], column: str) -> str:
        return row[self.columns.index(column)]

    def _header(self, new: Iterable[str]) -> str:
        return self._record([*self.columns, *new])

    def _line(self, row: list[str] | None, new: dict[str, Any]) -> str:
        return self._record([*(row or [""] * len(self.columns)), *new.values()])

    def _record(self, cells: Iterable[Any]) -> str:
        line = io.StringIO()
        csv.writer(line, **self.dialect).writerow(cells)
        return line.getvalue()


class TsvReader(CsvReader):
    """Tab-separated values with a header, without quotes."""

    dialect: ClassVar[dict[str, Any]] = {
        "delimiter": "\t",
        "quoting": csv.QUOTE_NONE,
        "quotechar": None,
        "lineterminator": "\n",
    }

    def _line(self, row: list[str] | None, new: dict[str, Any]) -> str:
        clean = {name: _one_line(v) if isinstance(v, str) else v for name, v in new.items()}
        return super()._line(row, clean)


Reader: TypeAlias = ParquetReader | TextReader

READERS: dict[str, type[Reader]] = {
    ".parquet": ParquetReader,
    ".jsonl": JsonlReader,
    ".csv": CsvReader,
    ".tsv": TsvReader,
    ".txt": TextReader,
}
"""Extension -> reader; files with any other extension are read as text if a pattern names them."""


def list_shards(pattern: str) -> list[Shard]:
    """Return the files of a folder, with all folders in it, or those that match a glob pattern.

    Raises:
        InputError: if there are none, or they cannot be listed.
    """
    try:
        files, path = url_to_fs(pattern)
        if files.isdir(path):
            base = path
            found = [each for each in files.find(path) if PurePosixPath(each).suffix in READERS]
        else:
            parts = PurePosixPath(path).parts
            fixed = itertools.takewhile(lambda part: not set(part) & set("*?["), parts[:-1])
            base = str(PurePosixPath(*fixed))
            found = [each for each in files.glob(path) if files.isfile(each)]
    except (OSError, ValueError, ImportError) as error:
        raise InputError(f"{pattern}: cannot be listed ({shorten(error)})") from None
    if not found:
        raise InputError(
            f"{pattern}: no files; give a folder or a pattern such as 'corpus/*.jsonl'"
        )
    return [
        Shard(files.unstrip_protocol(each), PurePosixPath(each).relative_to(base).as_posix())
        for each in sorted(found)
    ]


@contextlib.contextmanager
def open_shard(shard: Shard, column: str, *, only_texts: bool = False) -> Iterator[Reader]:
    """Open a shard.

    Args:
        shard: the file.
        column: its column of texts; text files and JSON objects are not checked for it.
        only_texts: read no other column if the format allows that.

    Raises:
        InputError: naming the file, if it cannot be read or has no such column.
    """
    kind = READERS.get(PurePosixPath(shard.name).suffix, TextReader)
    try:
        files, path = url_to_fs(shard.url)
        with files.open(path, "rb") as file:
            reader = kind(file, column if only_texts else None)
            if reader.columns is not None and column not in reader.columns:
                names = first_few(reader.columns, ", ")
                raise InputError(f"{shard.url}: no column {column!r}; its columns are: {names}")
            yield reader
    except HubNMTError:
        raise
    except (OSError, ValueError, csv.Error) as error:
        if isinstance(error, OSError) and error.errno in NO_ROOM:  # of the output
            raise
        raise InputError(f"{shard.url}: cannot be read ({shorten(error)})") from None


def check_columns(shard: Shard, column: str, types: Mapping[str, str]) -> None:
    """Check that a shard has a column of texts, and can have new columns.

    Raises:
        InputError: otherwise, or if it cannot be read.
    """
    with open_shard(shard, column) as reader:
        if clash := set(types) & set(reader.columns or ()):
            raise InputError(f"{shard.url}: has a column {clash.pop()!r}; choose another name")
        if type(reader) is TextReader and len(types) > 1:
            raise InputError(f"{shard.url}: a text file has no columns, so no scores")


def read_texts(shard: Shard, column: str) -> Iterator[list[str | None]]:
    """Yield the texts of a shard in lists; None for a row without one.

    Raises:
        InputError: if the shard cannot be read.
    """
    with open_shard(shard, column, only_texts=True) as reader:
        for chunk in reader:
            cells = reader.cells(chunk, column)
            yield [None if _find_problem(cell) else cell for cell in cells]


def write_shard(
    shard: Shard,
    column: str,
    output: Path,
    types: Mapping[str, str],
    rows: Iterator[Sequence[Any]],
    report: Callable[[int, str], None],
) -> None:
    """Write a shard with new columns; the file appears under its name when it is complete.

    Args:
        shard: the file that the rows belong to.
        column: its column of texts.
        output: the file to write.
        types: new columns and their Arrow types.
        rows: for each row of the shard its new cells, and why it was not translated, or None.
        report: called with the number, from 1, of each row that was not translated, and why.

    Raises:
        InputError: if the shard cannot be read, or has more or fewer rows than it had.
    """
    changed = InputError(
        f"{shard.url}: changed while it was translated, or cannot be read on every machine"
    )

    def add_columns(reader: Reader) -> Iterator[tuple[Any, Added]]:
        n_done = 0
        for chunk in reader:
            cells = reader.cells(chunk, column)
            new = list(itertools.islice(rows, len(cells)))
            if len(new) < len(cells):
                raise changed
            for number, (cell, row) in enumerate(zip(cells, new, strict=True), n_done + 1):
                if problem := _find_problem(cell) or row[-1]:
                    report(number, problem)
            n_done += len(cells)
            yield chunk, {name: [row[place] for row in new] for place, name in enumerate(types)}
        if next(rows, None) is not None:
            raise changed

    output.parent.mkdir(parents=True, exist_ok=True)
    draft = output.with_name(f"{output.name}.draft")
    check_columns(shard, column, types)
    with open_shard(shard, column) as reader, draft.open("wb") as file:
        reader.write(file, types, add_columns(reader))
    draft.replace(output)


def _find_problem(cell: Any) -> str | None:
    """Return why a cell is no text to translate, if so."""
    if isinstance(cell, InputError):
        return str(cell)
    if not isinstance(cell, str):
        return "no text in the source column"
    try:
        cell.encode()
        check_line(cell, where="the text")
    except UnicodeEncodeError:
        return "not valid UTF-8"
    except InputError as error:
        return str(error)
    return None


def _read_lines(file: BinaryIO) -> Iterator[str]:
    """Yield lines with their line feed; bytes that are not UTF-8 become lone surrogates."""
    with io.TextIOWrapper(file, "utf-8-sig", "surrogateescape", newline="\n") as text:
        while line := text.readline(MAX_ROW_CHARS):
            rest = line
            while not rest.endswith("\n") and (rest := text.readline(MAX_ROW_CHARS)):
                pass
            yield line


def _parse_object(line: str) -> dict[str, Any] | InputError:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return InputError("invalid JSON")
    return row if isinstance(row, dict) else InputError("not a JSON object, {...}")


def _one_line(text: str | None) -> str:
    """Return a translation without tabs and line breaks; empty for none."""
    return (text or "").replace("\n", " ").replace("\t", " ")

"""Read raw pairs from text files, tables and Hub datasets; files may be gzip-compressed."""

import codecs
import contextlib
import csv
import functools
import gzip
import hashlib
import itertools
import json
import re
import zlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from hubnmt.errors import InputError
from hubnmt.text.textfile import can_be_read_twice
from training.config.data import CorpusConfig, group_files, suffix_of

TextPair = tuple[str, str]
Row = dict[str, Any]

SLICE = re.compile(r"(?P<split>[^\[]+)\[(?P<start>\d*):(?P<end>\d*)\]")
"""Row range of a split, implemented here because streaming datasets do not support it."""
COMMIT = re.compile(r"[0-9a-f]{40}")
END = "\x04"
"""A line behind the last of a CSV file, which shows whether a quotation mark is open there."""
LOCAL_INSTEAD = "or use local files: --set data.train=SRC,TGT --set data.valid=SRC,TGT"


def read_corpus(corpus: CorpusConfig, *, src_lang: str, tgt_lang: str) -> Iterator[TextPair]:
    """Return an iterator over the raw pairs of a corpus.

    Raises:
        InputError, on iteration: if a file, a column, the dataset or a library is missing, or if
            no row has one of `where_values`.
    """
    columns = [corpus.src_column or src_lang, corpus.tgt_column or tgt_lang]
    columns += filter(None, [corpus.where_column])
    return itertools.islice(_read_pairs(corpus, columns), corpus.limit)


def _read_pairs(corpus: CorpusConfig, columns: Sequence[str]) -> Iterator[TextPair]:
    """Yield source and target of each row that passes the filter."""
    n_rows = n_wanted = 0
    for where, rows in read_sources(corpus, columns):
        for number, row in enumerate(rows):
            fields = flatten(row)
            if number == 0 and (missing := _list_missing(columns, fields)):
                raise InputError(
                    f"{where}: no column {missing}; its columns: {', '.join(fields)}; set "
                    "src_column and tgt_column to two of them"
                )
            n_rows += 1
            if (
                corpus.where_column
                and str(fields.get(corpus.where_column)) not in corpus.where_values
            ):
                continue
            n_wanted += 1
            src, tgt = (str(fields.get(name) or "") for name in columns[:2])
            yield src, tgt
    if n_rows and not n_wanted:
        raise InputError(
            f"{', '.join(corpus.files) or corpus.dataset}: none of {n_rows:,} rows has "
            f"{corpus.where_column} = {' or '.join(corpus.where_values)}; correct where_values"
        )


def read_sources(
    corpus: CorpusConfig, columns: Sequence[str]
) -> Iterator[tuple[str, Iterator[Row]]]:
    """Yield name and rows of each table, pair of text files, or dataset."""
    if not corpus.files:
        yield f"dataset {corpus.dataset!r}", _read_dataset(corpus)
    for first, *others in group_files(corpus.files):
        path = _expand(first)
        if others:
            pairs = _read_texts(path, _expand(others[0]))
            yield str(path), (dict(zip(columns, pair, strict=True)) for pair in pairs)
        elif suffix_of(first) == ".parquet":
            yield str(path), _read_parquet(path)
        else:
            yield str(path), _read_table(path, columns)


def fingerprint_corpus(corpus: CorpusConfig) -> str:
    """Return a digest of the content of a corpus, for the cache key.

    Files are read in full, about a second per gigabyte. A Hub dataset is identified by its commit.

    Raises:
        InputError: if the files or the dataset cannot be reached.
    """
    digest = hashlib.blake2b(digest_size=16)
    for name in corpus.files:
        path = _expand(name)
        digest.update(f"{name.lower().endswith('.gz')} {suffix_of(name)}\n".encode())
        with _reading(path), path.open("rb") as file:
            for block in iter(functools.partial(file.read, 2**20), b""):
                digest.update(block)
    if not corpus.files:
        digest.update(_find_commit(corpus).encode())
    return digest.hexdigest()


def flatten(row: Row) -> Row:
    """Flatten nested columns to `outer.inner`; those of `translation` also to `inner`."""
    flat: Row = {}
    for name, value in row.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{inner}": text for inner, text in value.items()}
            if name == "translation":
                flat |= value
        else:
            flat[name] = value
    return flat


def _list_missing(wanted: Collection[str], known: Collection[str]) -> str:
    return " or ".join(repr(name) for name in wanted if name not in known)


# --- text files ----------------------------------------------------------------------------------


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a text file; invalid UTF-8 becomes U+FFFD, which cleaning counts.

    Their ends and the byte order mark that Windows programs write are removed.
    """
    with _reading(path), _open(path) as file:
        first = file.readline()
        if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise InputError(f"{path}: UTF-16, as PowerShell's > writes it; save it as UTF-8 first")
        first = first.removeprefix(codecs.BOM_UTF8)
        for line in itertools.chain([first] if first else [], file):
            yield line.rstrip(b"\r\n").decode("utf-8", errors="replace")


def _read_texts(src_path: Path, tgt_path: Path) -> Iterator[TextPair]:
    lines = itertools.zip_longest(read_lines(src_path), read_lines(tgt_path))
    for src, tgt in lines:
        if src is None or tgt is None:
            n_src, n_tgt = (sum(1 for _ in read_lines(path)) for path in (src_path, tgt_path))
            raise InputError(
                f"{src_path} has {n_src:,} lines and {tgt_path} has {n_tgt:,}; "
                "line n of one must be the translation of line n of the other"
            )
        yield src, tgt


def _expand(name: str) -> Path:
    path = Path(name)
    with contextlib.suppress(RuntimeError):  # an unknown user, so there is no such file
        path = path.expanduser()
    if not can_be_read_twice(path):
        raise InputError(f"{path}: a pipe or a device; save it as a regular file first")
    return path


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: incomplete or not a gzip file ({error})") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check data.* paths") from None


def _open(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path)) if path.suffix.lower() == ".gz" else path.open("rb")


# --- tables --------------------------------------------------------------------------------------


def _read_table(path: Path, wanted: Sequence[str]) -> Iterator[Row]:
    lines = read_lines(path)
    match suffix_of(path.name):
        case ".jsonl":
            return _read_json(lines, path)
        case ".csv":
            return _name_columns(_split_fields(lines, path), wanted, path)
        case _:  # quotes are plain text, because corpora contain unbalanced ones
            return _name_columns((line.split("\t") for line in lines), wanted, path)


def _split_fields(lines: Iterator[str], path: Path) -> Iterator[list[str]]:
    """Yield the rows of a CSV file; its first line shows whether commas or semicolons divide it."""
    first = next(lines, "")
    all_lines = (f"{line}\n" for line in itertools.chain([first], lines))  # for fields of several
    with_end = itertools.chain(all_lines, [END])
    reader, start = csv.reader(with_end, delimiter=max(",;", key=first.count)), 1
    try:
        for row in reader:
            if row == [END]:
                return
            if row and row[-1].endswith(END):  # the rest of the file became one field
                raise InputError(f"{path}, line {start:,}: a quotation mark is never closed")
            yield row
            start = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num:,}: not CSV ({error})") from None


def _name_columns(lines: Iterator[list[str]], wanted: Sequence[str], path: Path) -> Iterator[Row]:
    """Yield rows as dictionaries; missing fields are empty, surplus ones are dropped.

    The first line names the columns, ignoring case, unless the wanted ones are numbers.
    """
    first = next(lines, None)
    if first is None:
        return
    exact = {name.casefold(): name for name in wanted}
    names = [*first]
    if _list_missing(wanted, names):
        names = [exact.get(name.strip().casefold(), name) for name in first]
    if _list_missing(wanted, names):
        names = [str(number) for number in range(1, len(first) + 1)]
        lines = itertools.chain([first], lines)
    if _list_missing(wanted, names):
        shown = ", ".join(first)[:200]
        raise InputError(
            f"{path}: no column {_list_missing(wanted, first)}; its first line is: {shown}; two "
            "columns of text are needed (src_column, tgt_column): name them, or 1 and 2 without a "
            "header"
        )
    empty = dict.fromkeys(names, "")
    for line in lines:
        yield empty | dict(zip(names, line, strict=False))


def _read_json(lines: Iterator[str], path: Path) -> Iterator[Row]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number:,}: not JSON ({error})") from None
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {number:,}: must be a JSON object")
        yield row


# --- the library `datasets` ----------------------------------------------------------------------


def _read_parquet(path: Path) -> Iterator[Row]:
    with open_library(str(path)), _open(path) as file:
        import pyarrow.parquet as pq  # installed with `datasets`

        for chunk in pq.ParquetFile(file).iter_batches():
            yield from chunk.to_pylist()


def _read_dataset(corpus: CorpusConfig) -> Iterator[Row]:
    part = SLICE.fullmatch(corpus.split) if corpus.streaming else None
    with open_library(f"dataset {corpus.dataset!r} ({corpus.split})") as datasets:
        rows = datasets.load_dataset(
            corpus.dataset,
            corpus.config,
            split=part["split"] if part else corpus.split,
            revision=corpus.revision,
            streaming=corpus.streaming,
        )
        if part:
            start, end = int(part["start"] or 0), int(part["end"]) if part["end"] else None
            rows = itertools.islice(rows.skip(start), end and end - start)
        yield from rows


def _find_commit(corpus: CorpusConfig) -> str:
    """Return a version identifier of a dataset; a given commit needs no network."""
    if corpus.revision and COMMIT.fullmatch(corpus.revision):
        return corpus.revision
    with open_library(f"dataset {corpus.dataset!r}") as datasets:
        builder = datasets.load_dataset_builder(
            corpus.dataset, corpus.config, revision=corpus.revision
        )
        return str(builder.hash)


@contextlib.contextmanager
def open_library(source: str) -> Iterator[Any]:
    """Import `datasets` and convert errors raised in the block to one line."""
    try:
        import datasets  # lazy: costs half a second and 100 MB, not needed for text
    except ImportError:
        raise InputError(
            f"{source} requires: pip install 'hubnmt[train]'; install it, {LOCAL_INSTEAD}"
        ) from None
    try:
        yield datasets
    except Exception as error:  # the library, its file systems and HTTP client share no base class
        first = (str(error).splitlines() or [""])[0] or type(error).__name__
        raise InputError(
            f"{source} cannot be loaded: {first}; fix that and try again, {LOCAL_INSTEAD}"
        ) from error

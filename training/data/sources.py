"""Read raw pairs from text files, tables and Hub datasets; files may be gzip-compressed."""

import codecs
import contextlib
import csv
import functools
import gzip
import hashlib
import itertools
import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

from hubnmt.errors import InputError
from training.config.data import CorpusConfig, group_files, suffix_of
from training.data.hub_dataset import find_commit, read_dataset
from training.data.rows import Row, TextPair, list_missing, pick_columns


def read_corpus(corpus: CorpusConfig, *, src_lang: str, tgt_lang: str) -> Iterator[TextPair]:
    """Yield the raw pairs of a corpus.

    Raises:
        InputError: if a file, a column, the dataset or a library is missing.
    """
    columns = (corpus.src_column or src_lang, corpus.tgt_column or tgt_lang)
    pairs = _read_files(corpus, columns) if corpus.files else read_dataset(corpus, columns)
    return itertools.islice(pairs, corpus.limit)


def _read_files(corpus: CorpusConfig, columns: TextPair) -> Iterator[TextPair]:
    for first, *others in group_files(corpus.files):
        if others:
            yield from _read_texts(_expand(first), _expand(others[0]))
        else:
            yield from _read_table(first, corpus, columns)


def fingerprint_corpus(corpus: CorpusConfig) -> str:
    """Return a digest of the content of a corpus, for the cache key.

    Files are read in full, about a second per gigabyte. A Hub dataset is identified by its commit.

    Raises:
        InputError: if the files or the dataset cannot be reached.
    """
    digest = hashlib.blake2b(digest_size=16)
    for name in corpus.files:
        path = _expand(name)
        digest.update(f"{name.endswith('.gz')} {suffix_of(name)}\n".encode())
        with _reading(path), path.open("rb") as file:
            for block in iter(functools.partial(file.read, 2**20), b""):
                digest.update(block)
    if not corpus.files:
        digest.update(find_commit(corpus).encode())
    return digest.hexdigest()


# --- text files ----------------------------------------------------------------------------------


def read_lines(path: Path) -> Iterator[str]:
    r"""Yield the lines of a text file; only a line feed ends a line.

    Invalid UTF-8 becomes U+FFFD; cleaning drops such pairs and counts them.
    """
    with _reading(path), _open(path) as file:
        for line in _lines(file, path):
            yield line.rstrip(b"\r\n").decode("utf-8", errors="replace")


def _read_texts(src_path: Path, tgt_path: Path) -> Iterator[TextPair]:
    """Yield line-aligned pairs."""
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
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InputError(
            f"{path}: a pipe or a device, which cannot be read repeatedly; save it as a "
            "regular file first"
        )
    return path


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Convert errors raised in the block to one line."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: incomplete or not a gzip file ({error})") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check data.* paths") from None


def _open(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _lines(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Yield raw lines, without the byte order mark that Windows programs write."""
    first = file.readline()
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f"{path}: UTF-16, as PowerShell's > writes it; save it as UTF-8 first")
    first = first.removeprefix(codecs.BOM_UTF8)
    yield from itertools.chain([first] if first else [], file)


# --- tables --------------------------------------------------------------------------------------


def _read_table(name: str, corpus: CorpusConfig, columns: TextPair) -> Iterator[TextPair]:
    path, suffix = _expand(name), suffix_of(name)
    wanted = (*columns, *([corpus.where_column] if corpus.where_column else []))
    with _reading(path), _open(path) as file:
        if suffix == ".parquet":
            rows = _read_parquet(file, path)
        elif suffix == ".jsonl":
            rows = _read_json(_lines(file, path), path)
        else:
            split = _split_tabs if suffix == ".tsv" else _split_commas
            rows = _name_columns(split(_lines(file, path), path), wanted, path)
        yield from pick_columns(rows, corpus, columns, where=str(path))


def _split_tabs(lines: Iterator[bytes], _path: Path) -> Iterator[list[str]]:
    """Split TSV lines; quotes are plain text, because corpora contain unbalanced ones."""
    for line in lines:
        yield line.rstrip(b"\r\n").decode("utf-8", errors="replace").split("\t")


def _split_commas(lines: Iterator[bytes], path: Path) -> Iterator[list[str]]:
    reader = csv.reader(line.decode("utf-8", errors="replace") for line in lines)
    try:
        yield from reader
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
    names = first if {*wanted} <= {*first} else [exact.get(f.strip().casefold(), f) for f in first]
    if not {*wanted} <= {*names}:
        names = [str(number) for number in range(1, len(first) + 1)]
        lines = itertools.chain([first], lines)
    if not {*wanted} <= {*names}:
        raise InputError(
            f"{path}: no column {list_missing(wanted, first)}; its first line is: "
            f"{', '.join(first)[:200]}; set src_column and tgt_column to names in it, or to 1 and "
            "2 if it is not a header"
        )
    empty = dict.fromkeys(names, "")
    for line in lines:
        yield empty | dict(zip(names, line, strict=False))


def _read_json(lines: Iterator[bytes], path: Path) -> Iterator[Row]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line.decode("utf-8", errors="replace"))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number:,}: not JSON ({error})") from None
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {number:,}: must be a JSON object")
        yield row


def _read_parquet(file: BinaryIO, path: Path) -> Iterator[Row]:
    try:
        import pyarrow as pa  # lazy: not needed for other formats
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(f"{path}: Parquet requires pyarrow: pip install 'hubnmt[train]'") from None
    try:
        for chunk in pq.ParquetFile(file).iter_batches():
            yield from chunk.to_pylist()
    except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        first = str(error).splitlines()[0]
        raise InputError(f"{path}: incomplete or not a Parquet file ({first})") from None

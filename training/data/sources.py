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
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from hubnmt.errors import InputError
from training.config.data import CorpusConfig, group_files, suffix_of

TextPair = tuple[str, str]
Row = dict[str, Any]
SLICE = re.compile(r"(?P<split>[^\[]+)\[(?P<start>\d*):(?P<end>\d*)\]")
"""Row range of a split, implemented here because streaming datasets do not support it."""
COMMIT = re.compile(r"[0-9a-f]{40}")
LOCAL_INSTEAD = (
    "fix that and try again, or use local files: --set data.train=SRC,TGT --set data.valid=SRC,TGT"
)
_TORN = (EOFError, gzip.BadGzipFile, zlib.error)


def read_corpus(corpus: CorpusConfig, *, src_lang: str, tgt_lang: str) -> Iterator[TextPair]:
    """Yield the raw pairs of a corpus.

    Raises:
        InputError: if a file, a column, the dataset or a library is missing.
    """
    columns = (corpus.src_column or src_lang, corpus.tgt_column or tgt_lang)
    pairs = _read_files(corpus, columns) if corpus.files else _read_hub(corpus, columns)
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
        with _reachable(path), path.open("rb") as file:
            for block in iter(functools.partial(file.read, 2**20), b""):
                digest.update(block)
    if not corpus.files:
        digest.update(_find_commit(corpus).encode())
    return digest.hexdigest()


# --- text files ----------------------------------------------------------------------------------


def read_lines(path: Path) -> Iterator[str]:
    r"""Yield the lines of a text file; only a line feed ends a line.

    Invalid UTF-8 becomes U+FFFD; cleaning drops such pairs and counts them.
    """
    with _open(path) as file:
        for line in _lines(file, path):
            yield line.rstrip(b"\r\n").decode("utf-8", errors="replace")


def _read_texts(src_path: Path, tgt_path: Path) -> Iterator[TextPair]:
    """Yield line-aligned pairs.

    Raises:
        InputError: if the files have different numbers of lines.
    """
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
    with _reachable(Path(name)):
        path = Path(name).expanduser()
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InputError(
            f"{path}: a pipe or a device, which cannot be read repeatedly; save it as a "
            "regular file first"
        )
    return path


def _open(path: Path) -> BinaryIO:
    with _reachable(path):
        return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _lines(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Yield raw lines, without the byte order mark that Windows programs write.

    Raises:
        InputError: if the file is UTF-16.
    """
    lines = _whole(iter(file), path)
    first = next(lines, b"")
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f"{path}: UTF-16, as PowerShell's > writes it; save it as UTF-8 first")
    first = first.removeprefix(codecs.BOM_UTF8)
    yield from itertools.chain([first] if first else [], lines)


@contextlib.contextmanager
def _reachable(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:  # also an invalid path, an unknown user
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{path}: cannot be read ({reason}); check data.* paths") from None


def _whole(items: Iterator[Any], path: Path) -> Iterator[Any]:
    """Yield items; an invalid gzip file raises errors only while it is read."""
    try:
        yield from items
    except _TORN as error:
        raise InputError(f"{path}: incomplete or not a gzip file ({error})") from None


# --- tables --------------------------------------------------------------------------------------


def _read_table(name: str, corpus: CorpusConfig, columns: TextPair) -> Iterator[TextPair]:
    path = _expand(name)
    suffix = suffix_of(name)
    with _open(path) as file:
        if suffix in (".tsv", ".csv"):
            split = _split_tabs if suffix == ".tsv" else _split_commas
            wanted = (*columns, *([corpus.where_column] if corpus.where_column else []))
            rows = _name_columns(split(_lines(file, path), path), wanted, path)
        elif suffix == ".jsonl":
            rows = _read_json(_lines(file, path), path)
        else:
            rows = _whole(_read_parquet(file, path), path)
        yield from _pick(rows, corpus, columns, where=str(path))


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

    Raises:
        InputError: if a column is missing: the sides of a table without a header are not guessed.
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
            f"{path}: no column {_missing(wanted, first)}; its first line is: "
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


def _pick(
    rows: Iterator[Row], corpus: CorpusConfig, columns: TextPair, *, where: str
) -> Iterator[TextPair]:
    """Yield source and target of each row that passes the filter."""
    filtered, values = corpus.where_column, set(corpus.where_values)
    wanted = (*columns, *([filtered] if filtered else []))
    for number, row in enumerate(rows):
        fields = _flatten(row)
        if number == 0 and not {*wanted} <= {*fields}:
            raise InputError(
                f"{where}: no column {_missing(wanted, fields)}; its columns: {', '.join(fields)}; "
                "set src_column and tgt_column to two of them"
            )
        if filtered is None or str(fields.get(filtered)) in values:
            src, tgt = (fields.get(column) for column in columns)
            yield str(src or ""), str(tgt or "")


def _flatten(row: Row) -> Row:
    """Flatten nested columns to `outer.inner`; those of `translation` also to `inner`."""
    flat: Row = {}
    for name, value in row.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{inner}": each for inner, each in value.items()}
            if name == "translation":
                flat |= value
        else:
            flat[name] = value
    return flat


def _missing(wanted: Sequence[str], known: Collection[str]) -> str:
    return " or ".join(repr(name) for name in wanted if name not in known)


# --- the Hub -------------------------------------------------------------------------------------


def _read_hub(corpus: CorpusConfig, columns: TextPair) -> Iterator[TextPair]:
    return _pick(_hub_rows(corpus), corpus, columns, where=f"dataset {corpus.dataset!r}")


def _hub_rows(corpus: CorpusConfig) -> Iterator[Row]:
    """Yield the rows of a Hub dataset."""
    split, part = corpus.split, SLICE.fullmatch(corpus.split)
    if corpus.streaming and part:
        split = part["split"]

    def load(datasets: Any) -> Iterator[Row]:
        rows = datasets.load_dataset(
            corpus.dataset,
            corpus.config,
            split=split,
            revision=corpus.revision,
            streaming=corpus.streaming,
        )
        if corpus.streaming and part:
            start, end = int(part["start"] or 0), int(part["end"]) if part["end"] else None
            rows = itertools.islice(rows.skip(start), end and end - start)
        yield from rows

    return _ask_hub(corpus, load)


def _find_commit(corpus: CorpusConfig) -> str:
    """Return a version identifier of a dataset; a given commit needs no network."""
    if corpus.revision and COMMIT.fullmatch(corpus.revision):
        return corpus.revision

    def look_up(datasets: Any) -> Iterator[Any]:
        builder = datasets.load_dataset_builder(
            corpus.dataset, corpus.config, revision=corpus.revision
        )
        yield builder.hash

    (commit,) = _ask_hub(corpus, look_up)
    return str(commit)


def _ask_hub(corpus: CorpusConfig, ask: Callable[[Any], Iterator[Any]]) -> Iterator[Any]:
    """Call the `datasets` library and convert its errors to one line."""
    try:
        import datasets  # lazy: costs half a second and 100 MB, not needed for local files
    except ImportError:
        raise InputError(
            f"Hub datasets require the datasets library (pip install 'hubnmt[train]'); "
            f"{LOCAL_INSTEAD}"
        ) from None
    try:
        yield from ask(datasets)
    except Exception as error:  # the library, its file systems and HTTP client share no base class
        first = (str(error).splitlines() or [""])[0] or type(error).__name__
        raise InputError(
            f"dataset {corpus.dataset!r} ({corpus.split}) cannot be loaded: {first}; "
            f"{LOCAL_INSTEAD}"
        ) from error

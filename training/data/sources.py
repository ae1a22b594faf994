"""Read raw pairs from text files, tables and Hub datasets; files may be gzip-compressed."""

import codecs
import contextlib
import csv
import functools
import gzip
import hashlib
import itertools
import json
import logging
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from hubnmt.errors import InputError
from training.config.data import CorpusConfig, group_files, suffix_of

log = logging.getLogger("training")

TextPair = tuple[str, str]
Row = dict[str, Any]

SLICE = re.compile(r"(?P<split>[^\[]+)\[(?P<start>\d*):(?P<end>\d*)\]")
"""Row range of a split, implemented here because streaming datasets do not support it."""
COMMIT = re.compile(r"[0-9a-f]{40}")
LOCAL_INSTEAD = "or use local files: --set data.train=SRC,TGT --set data.valid=SRC,TGT"
MAX_VALUES = 20
"""Values of a filter column to name in an error."""


def read_corpus(corpus: CorpusConfig, *, src_lang: str, tgt_lang: str) -> Iterator[TextPair]:
    """Yield the raw pairs of a corpus.

    Raises:
        InputError: if a file, a column, the dataset or a library is missing, or if no row has one
            of `where_values`.
    """
    columns = [corpus.src_column or src_lang, corpus.tgt_column or tgt_lang]
    columns += filter(None, [corpus.where_column])
    known: dict[str, None] = {}  # values of the filter column
    pairs = _read_pairs(corpus, columns, known)
    yield from itertools.islice(pairs, corpus.limit)
    missing = [value for value in corpus.where_values if value not in known]
    if missing and next(pairs, None) is None:  # read to the end
        message = (
            f"{', '.join(corpus.files) or corpus.dataset}: no row has {corpus.where_column} = "
            f"{' or '.join(missing)}; its values: {', '.join(list(known)[:MAX_VALUES])}; correct "
            "where_values"
        )
        if len(missing) == len(corpus.where_values):
            raise InputError(message)
        log.warning("data: %s", message)


def _read_pairs(
    corpus: CorpusConfig, columns: Sequence[str], known: dict[str, None]
) -> Iterator[TextPair]:
    if not corpus.files:
        rows = _read_dataset(corpus)
        yield from _pick_columns(rows, corpus, columns, known, f"dataset {corpus.dataset!r}")
    for first, *others in group_files(corpus.files):
        path = _expand(first)
        if others:
            yield from _read_texts(path, _expand(others[0]))
            continue
        with _reading(path), _open(path) as file:
            rows = _read_table(file, path, columns)
            yield from _pick_columns(rows, corpus, columns, known, str(path))


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
        digest.update(_find_commit(corpus).encode())
    return digest.hexdigest()


def _pick_columns(
    rows: Iterable[Row],
    corpus: CorpusConfig,
    columns: Sequence[str],
    known: dict[str, None],
    where: str,
) -> Iterator[TextPair]:
    """Yield source and target of each row that passes the filter; collect the filter's values."""
    for number, row in enumerate(rows):
        fields = _flatten(row)
        if number == 0 and (missing := _list_missing(columns, fields)):
            raise InputError(
                f"{where}: no column {missing}; its columns: {', '.join(fields)}; set src_column "
                "and tgt_column to two of them"
            )
        if corpus.where_column is not None:
            value = str(fields.get(corpus.where_column))
            is_wanted = value in corpus.where_values
            if is_wanted or len(known) < MAX_VALUES:
                known[value] = None
            if not is_wanted:
                continue
        src, tgt = (str(fields.get(name) or "") for name in columns[:2])
        yield src, tgt


def _flatten(row: Row) -> Row:
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
    """Yield the lines of a text file; invalid UTF-8 becomes U+FFFD, which cleaning counts."""
    with _reading(path), _open(path) as file:
        yield from _lines(file, path)


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
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise InputError(
            f"{path}: a pipe or a device, which cannot be read repeatedly; save it as a "
            "regular file first"
        )
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
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _lines(file: BinaryIO, path: Path) -> Iterator[str]:
    """Yield lines without their ends and the byte order mark that Windows programs write."""
    first = file.readline()
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f"{path}: UTF-16, as PowerShell's > writes it; save it as UTF-8 first")
    first = first.removeprefix(codecs.BOM_UTF8)
    for line in itertools.chain([first] if first else [], file):
        yield line.rstrip(b"\r\n").decode("utf-8", errors="replace")


# --- tables --------------------------------------------------------------------------------------


def _read_table(file: BinaryIO, path: Path, wanted: Sequence[str]) -> Iterator[Row]:
    match suffix_of(path.name):
        case ".parquet":
            return _read_parquet(file, path)
        case ".jsonl":
            return _read_json(_lines(file, path), path)
        case ".csv":
            return _name_columns(_split_commas(_lines(file, path), path), wanted, path)
        case _:  # quotes are plain text, because corpora contain unbalanced ones
            lines = (line.split("\t") for line in _lines(file, path))
            return _name_columns(lines, wanted, path)


def _split_commas(lines: Iterator[str], path: Path) -> Iterator[list[str]]:
    reader = csv.reader(f"{line}\n" for line in lines)  # a quoted field may have several lines
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
    names = [*first]
    if _list_missing(wanted, names):
        names = [exact.get(name.strip().casefold(), name) for name in first]
    if _list_missing(wanted, names):
        names = [str(number) for number in range(1, len(first) + 1)]
        lines = itertools.chain([first], lines)
    if _list_missing(wanted, names):
        shown = ", ".join(first)
        if len(first) == 1 and ";" in shown:
            raise InputError(
                f"{path}: its columns are separated by semicolons ({shown[:200]}); save it with "
                "commas, or as .tsv with tabs"
            )
        raise InputError(
            f"{path}: no column {_list_missing(wanted, first)}; its first line is: {shown[:200]}; "
            "set src_column and tgt_column to names in it, or to 1 and 2 if it is not a header"
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


# --- Hub datasets --------------------------------------------------------------------------------


def _read_dataset(corpus: CorpusConfig) -> Iterator[Row]:
    part = SLICE.fullmatch(corpus.split) if corpus.streaming else None
    with _library(corpus) as datasets:
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
    with _library(corpus) as datasets:
        builder = datasets.load_dataset_builder(
            corpus.dataset, corpus.config, revision=corpus.revision
        )
        return str(builder.hash)


@contextlib.contextmanager
def _library(corpus: CorpusConfig) -> Iterator[Any]:
    """Import `datasets` and convert errors raised in the block to one line."""
    try:
        import datasets  # lazy: costs half a second and 100 MB, not needed for local files
    except ImportError:
        raise InputError(
            f"Hub datasets require: pip install 'hubnmt[train]'; install it, {LOCAL_INSTEAD}"
        ) from None
    try:
        yield datasets
    except Exception as error:  # the library, its file systems and HTTP client share no base class
        first = (str(error).splitlines() or [""])[0] or type(error).__name__
        raise InputError(
            f"dataset {corpus.dataset!r} ({corpus.split}) cannot be loaded: {first}; fix that and "
            f"try again, {LOCAL_INSTEAD}"
        ) from error

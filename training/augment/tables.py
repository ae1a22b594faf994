"""Read and write the tables of sentence pairs that the commands of this package share."""

import contextlib
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from hubnmt.errors import ConfigError, InputError
from training.config.data import CorpusConfig
from training.data.sources import TextPair, read_corpus, read_lines


class PairTable(NamedTuple):
    """Sentence pairs, and the languages of their columns."""

    src_lang: str
    tgt_lang: str
    pairs: list[TextPair]


def read_table(path: Path) -> PairTable:
    """Read a .tsv table of two columns whose header names the languages, source first.

    Raises:
        InputError: if the file cannot be read, has another number of columns, or no pairs.
    """
    header = next(read_lines(path), "").split("\t")
    if len(header) != 2 or not all(header):
        raise InputError(f"{path}: the header must name two languages, separated by a tab")
    src_lang, tgt_lang = header
    corpus = CorpusConfig(files=(str(path),), src_column=src_lang, tgt_column=tgt_lang)
    pairs = list(read_corpus(corpus, src_lang=src_lang, tgt_lang=tgt_lang))
    if not pairs:
        raise InputError(f"{path}: contains no pairs")
    return PairTable(src_lang, tgt_lang, pairs)


def check_output(path: Path) -> None:
    """Check that a new table can be written, before the work starts.

    Raises:
        ConfigError: if the name does not end in .tsv.
        InputError: if the file exists, or its folder cannot be written to.
    """
    if path.suffix != ".tsv":
        raise ConfigError(f"--output {path} must end in .tsv")
    if path.exists():
        raise InputError(f"{path} already exists; choose another file, or remove it")
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()


def write_table(path: Path, rows: Iterable[Iterable[object]]) -> None:
    """Write a .tsv table atomically; the first row is the header.

    Raises:
        InputError: if it cannot be written.
    """
    draft = path.with_name(f".{path.name}.draft")
    text = "".join("\t".join(map(str, row)) + "\n" for row in rows)
    with _writing(path):
        try:
            draft.write_text(text, encoding="utf-8")
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); choose another") from None

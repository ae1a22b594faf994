"""Read and write the tables of sentence pairs that the commands of this package share."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from hubnmt.errors import InputError
from training.config.data import CorpusConfig
from training.data.sources import TextPair, read_corpus, read_lines
from training.files import replace_text


class PairTable(NamedTuple):
    """Sentence pairs, and the languages of their columns."""

    src_lang: str
    tgt_lang: str
    pairs: list[TextPair]


def read_table(path: Path) -> PairTable:
    """Read a .tsv table of two columns whose header names the languages, source first."""
    header = next(read_lines(path), "").split("\t")
    if len(header) != 2 or not all(header):
        raise InputError(f"{path}: the header must name two languages, separated by a tab")
    src_lang, tgt_lang = header
    corpus = CorpusConfig(files=(str(path),))
    pairs = list(read_corpus(corpus, src_lang=src_lang, tgt_lang=tgt_lang))
    if not pairs:
        raise InputError(f"{path}: contains no pairs")
    return PairTable(src_lang, tgt_lang, pairs)


def check_output(path: Path) -> None:
    """Check before the work that a table can be written: a new file that ends in .tsv."""
    if path.suffix != ".tsv" or path.exists():
        raise InputError(f"--output {path} must end in .tsv and not exist yet")
    path.parent.mkdir(parents=True, exist_ok=True)


def write_table(path: Path, rows: Iterable[Iterable[object]]) -> None:
    """Write a .tsv table atomically; the first row is the header."""
    replace_text(path, "".join("\t".join(map(str, row)) + "\n" for row in rows))

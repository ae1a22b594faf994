"""Read Hub datasets with the `datasets` library, which is imported only here."""

import contextlib
import itertools
import re
from collections.abc import Iterator
from typing import Any

from hubnmt.errors import InputError
from training.config.data import CorpusConfig
from training.data.rows import Row, TextPair, pick_columns

SLICE = re.compile(r"(?P<split>[^\[]+)\[(?P<start>\d*):(?P<end>\d*)\]")
"""Row range of a split, implemented here because streaming datasets do not support it."""
COMMIT = re.compile(r"[0-9a-f]{40}")
LOCAL_INSTEAD = "or use local files: --set data.train=SRC,TGT --set data.valid=SRC,TGT"


def read_dataset(corpus: CorpusConfig, columns: TextPair) -> Iterator[TextPair]:
    """Yield the raw pairs of a Hub dataset.

    Raises:
        InputError: if the library or a column is missing, or the dataset cannot be loaded.
    """
    rows = _read_rows(corpus)
    return pick_columns(rows, corpus, columns, where=f"dataset {corpus.dataset!r}")


def _read_rows(corpus: CorpusConfig) -> Iterator[Row]:
    split, part = corpus.split, SLICE.fullmatch(corpus.split) if corpus.streaming else None
    with _library(corpus) as datasets:
        rows = datasets.load_dataset(
            corpus.dataset,
            corpus.config,
            split=part["split"] if part else split,
            revision=corpus.revision,
            streaming=corpus.streaming,
        )
        if part:
            start, end = int(part["start"] or 0), int(part["end"]) if part["end"] else None
            rows = itertools.islice(rows.skip(start), end and end - start)
        yield from rows


def find_commit(corpus: CorpusConfig) -> str:
    """Return a version identifier of a dataset; a given commit needs no network.

    Raises:
        InputError: if the library is missing, or the dataset cannot be reached.
    """
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

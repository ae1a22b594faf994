"""Cleaned training texts on disk, without duplicates.

Duplicates are found by sorting 64-bit fingerprints, so memory is 8 bytes per pair.
"""

from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from hubnmt.checkpoint.folder import read_json, write_json
from training.data.arrow import NUMBER, TEXT, TableWriter, read_columns
from training.data.cleaning import DUPLICATE, CleaningReport, fingerprint_pair
from training.data.corpora import CleanPair

TEXTS_FILE = "texts.arrow"
REPORT_FILE = "report.json"
_DRAFT_FILE = "draft.arrow"
_COLUMNS = {"corpus": NUMBER, "src": TEXT, "tgt": TEXT}

TextRows = tuple[list[int], list[str], list[str]]
"""Corpus indices, sources and targets of a chunk of pairs."""


def write_texts(
    folder: Path,
    pairs: Iterable[CleanPair],
    report: CleaningReport,
    *,
    names: list[str],
    drop_duplicates: bool,
) -> None:
    """Write the pairs and the cleaning report.

    Args:
        folder: existing folder.
        pairs: cleaned pairs, ordered by corpus.
        report: duplicates are added to it; other drops are counted while `pairs` is read.
        names: names of the corpora.
        drop_duplicates: whether to keep only the first of equal pairs.
    """
    fingerprints = array("q")
    draft = folder / (_DRAFT_FILE if drop_duplicates else TEXTS_FILE)
    with TableWriter(draft, _COLUMNS) as writer:
        for pair in pairs:
            writer.add(pair.corpus, pair.src, pair.tgt)
            if drop_duplicates:
                fingerprints.append(fingerprint_pair(pair.plain_src, pair.tgt))
    if drop_duplicates:
        is_first = find_firsts(fingerprints)
        _copy(draft, folder / TEXTS_FILE, is_first, report, names)
        draft.unlink()
    write_json(folder / REPORT_FILE, {"read": dict(report.read), "drops": report.drops})


def find_firsts(fingerprints: "array[int]") -> Tensor:
    """Return whether each value is the first of its kind, (N,) bool."""
    values = torch.tensor(fingerprints, dtype=torch.int64)
    ordered, order = torch.sort(values, stable=True)
    is_first = torch.ones(len(values), dtype=torch.bool)
    is_first[order[1:][ordered[1:] == ordered[:-1]]] = False
    return is_first


def _copy(
    draft: Path, dest: Path, is_first: Tensor, report: CleaningReport, names: list[str]
) -> None:
    start = 0
    with TableWriter(dest, _COLUMNS) as writer:
        for columns in read_columns(draft):
            kept = is_first[start : start + len(columns[0])].tolist()
            start += len(kept)
            for row, stays in zip(zip(*columns, strict=True), kept, strict=True):
                if stays:
                    writer.add(*row)
                else:
                    report.drop(names[row[0]], DUPLICATE)


def read_texts(folder: Path) -> Iterator[TextRows]:
    """Yield the stored pairs in chunks."""
    for chunk in read_columns(folder / TEXTS_FILE):
        corpora, sources, targets = chunk
        yield corpora, sources, targets


def read_report(folder: Path) -> CleaningReport:
    """Return the stored cleaning report."""
    stored = read_json(folder / REPORT_FILE)
    return CleaningReport.from_counts(stored["read"], stored["drops"])

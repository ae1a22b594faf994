"""Hub datasets and local files to clean sentence pairs, with a report of what was dropped.

Takes a `DataConfig`, gives lists of (source, target). Must not know the model.
"""

import collections
import dataclasses
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hubnmt.errors import InputError
from hubnmt.tokenizer import normalize
from training.config import DataConfig

try:  # the core trains from local files on machines without it
    import datasets
except ImportError:
    datasets = None

log = logging.getLogger(__name__)

TextPair = tuple[str, str]
INVALID = "\ufffd"
"""Stands for bytes that were not valid UTF-8: a pair with it is dropped."""


@dataclasses.dataclass(slots=True)
class CleaningReport:
    """How many pairs came in, and why some did not stay."""

    n_read: int = 0
    n_kept: int = 0
    dropped: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)

    def __str__(self) -> str:
        """Say it in one line."""
        reasons = ", ".join(f"{count:,} {why}" for why, count in self.dropped.most_common())
        return f"{self.n_kept:,} of {self.n_read:,} pairs kept; dropped: {reasons or 'none'}"

    def to_dict(self) -> dict[str, Any]:
        """For the run's records."""
        return {"n_read": self.n_read, "n_kept": self.n_kept, "dropped": dict(self.dropped)}


def read_lines(path: Path) -> Iterator[str]:
    r"""Yield the lines of a text file; only a line feed ends a line.

    Bytes that are not UTF-8 become U+FFFD, which cleaning drops and counts.
    """
    try:
        with path.open("rb") as file:
            for line in file:
                yield line.rstrip(b"\r\n").decode("utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check data.* paths") from None


def read_pairs(files: tuple[str, ...]) -> Iterator[TextPair]:
    """Yield line-aligned pairs: source file, target file, and so on.

    Raises:
        InputError: if two files differ in their number of lines.
    """
    for src_name, tgt_name in zip(files[::2], files[1::2], strict=True):
        src_path, tgt_path = (_expand(name) for name in (src_name, tgt_name))
        try:
            yield from zip(read_lines(src_path), read_lines(tgt_path), strict=True)
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            n_src, n_tgt = (sum(1 for _ in read_lines(path)) for path in (src_path, tgt_path))
            raise InputError(
                f"{src_path} has {n_src:,} lines and {tgt_path} has {n_tgt:,}; "
                "line n of one must be the translation of line n of the other"
            ) from None


def _expand(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError:
        raise InputError(f"{name}: no such user's home; check data.* paths") from None


def read_dataset(config: DataConfig, split: str) -> Iterator[TextPair]:
    """Yield pairs of a Hub dataset.

    Raises:
        InputError: if the library is missing, the Hub does not answer, or a column is not there.
    """
    if datasets is None:
        raise InputError(
            "data from the Hub needs the datasets library: pip install 'hubnmt[train]', "
            "or name local files with --set data.train=SRC,TGT"
        )
    src, tgt = config.src_column or config.src_lang, config.tgt_column or config.tgt_lang
    try:
        rows = datasets.load_dataset(config.dataset, config.dataset_config, split=split)
    except (OSError, ValueError, RuntimeError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"dataset {config.dataset!r} ({split}) cannot be loaded: {first}; "
            "or name local files with --set data.train=SRC,TGT --set data.valid=SRC,TGT"
        ) from error
    for row in rows:
        pair = row.get("translation", row)
        if src not in pair or tgt not in pair:
            raise InputError(
                f"dataset {config.dataset!r} has no column {src!r} or {tgt!r}; "
                f"its columns: {', '.join(pair)}; set data.src_column and data.tgt_column"
            )
        yield str(pair[src] or ""), str(pair[tgt] or "")


def load_split(config: DataConfig, split: str) -> Iterator[TextPair]:
    """Yield the pairs of `train` or `valid`, from local files if named, else from the Hub."""
    files: tuple[str, ...] = getattr(config, split)
    return read_pairs(files) if files else read_dataset(config, getattr(config, f"{split}_split"))


def why_drop(pair: TextPair, *, max_length_ratio: float) -> str | None:
    """Name the reason to drop a training pair, or None to keep it."""
    src, tgt = pair
    if INVALID in src or INVALID in tgt:
        return "not valid UTF-8"
    if not src or not tgt:
        return "empty"
    shorter, longer = sorted((len(src), len(tgt)))
    if longer > max_length_ratio * shorter and longer - shorter >= 20:
        return "absurdly unequal"
    return None


def clean(pairs: Iterable[TextPair], config: DataConfig) -> tuple[list[TextPair], CleaningReport]:
    """Normalise and strip both sides; drop broken training pairs and count why.

    Length in tokens is checked later, by `drop_long`, when there is a tokenizer.
    """
    report = CleaningReport()
    kept = []
    for src, tgt in pairs:
        report.n_read += 1
        pair = (normalize(src.strip()), normalize(tgt.strip()))
        reason = why_drop(pair, max_length_ratio=config.max_length_ratio)
        if reason:
            report.dropped[reason] += 1
        else:
            kept.append(pair)
    report.n_kept = len(kept)
    return kept, report


def drop_long(
    pairs: Iterable[tuple[list[int], list[int]]], *, max_tokens: int, report: CleaningReport
) -> list[tuple[list[int], list[int]]]:
    """Drop pairs of ids with a side longer than `max_tokens`, and count them in the report."""
    kept = [pair for pair in pairs if max(map(len, pair)) <= max_tokens]
    n_long = report.n_kept - len(kept)
    if n_long:
        report.dropped[f"longer than {max_tokens} tokens"] += n_long
    report.n_kept = len(kept)
    return kept

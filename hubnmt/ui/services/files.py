"""What the page does with a file, as functions that need no server.

Takes the path of an upload and what was chosen, gives progress and at the end the translated file
and, where there are references, its scores. A request that cannot be met raises `HubNMTError`.
Must not know Gradio.
"""

import dataclasses
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hubnmt.config import ModelConfig
from hubnmt.errors import InputError
from hubnmt.text.languages import language_name, main_tag
from hubnmt.text.metrics import Scores, score_corpus, sentence_chrf
from hubnmt.translator import Translator
from hubnmt.ui.services import limits, tables
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.scheduler import Quota, model_turn

CHUNK_ROWS = 16
CHUNK_SECONDS = 0.5
"""Rows between two signs of progress, after which a cancelled job ends and others have their turn:
so many, or as many as take so long."""

READ_SECONDS = 0.3
"""What reading a file of the largest size takes, and counting its pieces."""

MAX_JOBS = 8
MAX_CLIENT_JOBS = 2
"""Files in memory, of all clients and of one address."""
_JOBS = Quota(MAX_JOBS, MAX_CLIENT_JOBS)

N_WORST = 10
"""Sentences shown as the worst."""

SOURCE_NAMES = ("source", "src", "text", "sentence", "input")
REFERENCE_NAMES = ("reference", "ref", "target", "tgt", "translation")
"""What people call these columns, beside the tag and the name of the language."""


class Described(NamedTuple):
    """An upload, looked at."""

    columns: tuple[str, ...]
    source: str
    """Which column looks like the source."""
    reference: str
    """Which one looks like the reference; empty if none does."""
    n_rows: int


class Worst(NamedTuple):
    """A sentence that was translated badly, measured by chrF."""

    chrf: float
    row: int
    """Counted from 1."""
    src: str
    text: str
    reference: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class FileProgress:
    """How far a file is."""

    n_done: int
    n_rows: int
    seconds: float


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class FileResult:
    """A translated file."""

    path: Path
    """Where it lies, until the iterator that gave it is asked for more."""
    n_rows: int
    seconds: float
    n_warnings: int
    """Rows whose translation came with a warning."""
    scores: Scores | None
    """Where there are references."""
    worst: tuple[Worst, ...]
    """Worst first."""


@dataclasses.dataclass(frozen=True, slots=True)
class Files:
    """What a visitor can do with a file."""

    registry: ModelRegistry

    def describe(self, path: str | None, model: str, *, has_header: bool = True) -> Described:
        """Look at an upload: its columns, and which of them look like source and reference.

        Raises:
            HubNMTError: if there is none, or it cannot be read.
        """
        config = self.registry.get(model).config
        with model_turn(READ_SECONDS):
            table = tables.read_table(_given(path), has_header=has_header)
        return Described(
            table.columns,
            find_source(table, config),
            find_reference(table, config),
            len(table.rows),
        )

    def translate(
        self,
        path: str | None,
        model: str,
        *,
        source: str = "",
        reference: str = "",
        has_header: bool = True,
        **options: Any,
    ) -> Iterator[FileProgress | FileResult]:
        """Translate a column of a file, chunk by chunk.

        Args:
            path: the upload.
            model: which model; empty is the one the page opened with.
            source: which column; empty takes the one that looks like it.
            reference: a column to measure against; empty for none.
            has_header: see `tables.read_table`.
            options: fields of `DecodingConfig` that differ from this model's defaults.

        Yields:
            progress, and the result as the last value. Its file is removed when the iterator ends.

        Raises:
            HubNMTError: if the file, a column, an option or the model is refused.
        """
        translator = self.registry.get(model)
        with _JOBS.place():
            yield from self._translate(
                _given(path), translator, source, reference, has_header, options
            )

    def _translate(
        self,
        path: Path,
        translator: Translator,
        source: str,
        reference: str,
        has_header: bool,
        options: dict[str, Any],
    ) -> Iterator[FileProgress | FileResult]:
        with model_turn(READ_SECONDS):
            table = tables.read_table(path, has_header=has_header)
            source = source or find_source(table, translator.config)
            sources = table.column(source)
            references = table.column(reference) if reference else None
            costs = limits.check_rows(translator, sources, options)
        started = time.perf_counter()
        texts: list[str] = []
        n_warnings = 0
        for chunk in chunk_rows(costs):
            seconds = time.perf_counter() - started
            yield FileProgress(n_done=chunk.start, n_rows=len(sources), seconds=seconds)
            with model_turn(sum(costs[chunk])):
                found = translator.translate(sources[chunk], **options)
            texts += [each.text for each in found]
            n_warnings += sum(bool(each.warnings) for each in found)
        with tempfile.TemporaryDirectory(prefix="hubnmt-") as folder:
            result = Path(folder) / f"translation{table.kind}"
            written = tables.write_table(table, texts, source)
            result.write_text(written, encoding="utf-8", newline="")
            yield FileResult(
                path=result,
                n_rows=len(texts),
                seconds=time.perf_counter() - started,
                n_warnings=n_warnings,
                scores=None if references is None else score_corpus(texts, references),
                worst=() if references is None else find_worst(sources, texts, references),
            )


def chunk_rows(costs: Sequence[float]) -> list[slice]:
    """Cut rows into chunks that take about `CHUNK_SECONDS`, of at most `CHUNK_ROWS`."""
    chunks, start, total = [], 0, 0.0
    for end, cost in enumerate(costs):
        if end > start and (end - start >= CHUNK_ROWS or total + cost > CHUNK_SECONDS):
            chunks.append(slice(start, end))
            start, total = end, 0.0
        total += cost
    return [*chunks, slice(start, len(costs))]


def _given(path: str | None) -> Path:
    if not path:
        raise InputError("there is no file yet: choose one first")
    return Path(path)


def find_source(table: tables.Table, config: ModelConfig) -> str:
    """Guess which column is to be translated: by its name, else the one with the most letters."""
    named = _find(table.columns, (*_names_of(config.src_lang), *SOURCE_NAMES))
    reference = _find(table.columns, (*_names_of(config.tgt_lang), *REFERENCE_NAMES))
    others = [name for name in table.columns if name != reference]
    return named or max(others or table.columns, key=lambda name: _count_letters(table, name))


def find_reference(table: tables.Table, config: ModelConfig) -> str:
    """Guess which column holds references; none, where none looks like it."""
    source = find_source(table, config)
    others = [name for name in table.columns if name != source]
    return _find(others, (*_names_of(config.tgt_lang), *REFERENCE_NAMES))


def _names_of(tag: str) -> tuple[str, ...]:
    return tag, main_tag(tag), language_name(tag)


def _count_letters(table: tables.Table, name: str) -> int:
    cells = (str(row.get(name, "")) for row in table.rows)
    return sum(sum(map(str.isalpha, cell)) for cell in cells)


def _find(columns: Sequence[str], names: Sequence[str]) -> str:
    lowered = {name.lower(): name for name in reversed(columns)}
    return next((lowered[name] for name in map(str.lower, names) if name in lowered), "")


def find_worst(
    sources: Sequence[str], texts: Sequence[str], references: Sequence[str]
) -> tuple[Worst, ...]:
    """List the sentences with the lowest chrF, worst first."""
    rows = zip(range(1, len(texts) + 1), sources, texts, references, strict=True)
    every = [Worst(sentence_chrf(row[2], row[3]), *row) for row in rows]
    return tuple(sorted(every)[:N_WORST])

"""Translation of uploaded files in chunks, with progress and evaluation against references."""

import dataclasses
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Unpack

from hubnmt.config import DecodingConfig, DecodingOptions, ModelConfig
from hubnmt.errors import InputError
from hubnmt.text.languages import language_name, main_tag
from hubnmt.text.metrics import Scores, score_corpus, sentence_chrf
from hubnmt.translator import Translator
from hubnmt.ui.services import limits, tables
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.scheduler import Quota, model_turn

CHUNK_ROWS = 16
CHUNK_SECONDS = 0.5
"""Maximum rows and estimated duration of a chunk. Between chunks progress is reported, cancellation
takes effect, and other tasks may run."""

READ_SECONDS = 0.3
"""Estimated time to read and tokenize a file of the maximum size."""

MAX_JOBS = 8
MAX_CLIENT_JOBS = 2
"""Maximum concurrent file jobs, in total and per address."""
_JOBS = Quota(MAX_JOBS, MAX_CLIENT_JOBS)

N_WORST = 10
"""Number of lowest-scoring sentences shown."""

SOURCE_NAMES = ("source", "src", "text", "sentence", "input")
REFERENCE_NAMES = ("reference", "ref", "target", "tgt", "translation")
"""Common column names, in addition to the language's tag and name."""


class Described(NamedTuple):
    """Summary of an uploaded file."""

    columns: tuple[str, ...]
    source: str
    """Detected source column."""
    reference: str
    """Detected reference column; empty if none."""
    n_rows: int


class Worst(NamedTuple):
    """A sentence with a low chrF score."""

    chrf: float
    row: int
    """Row number, from 1."""
    src: str
    text: str
    reference: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class FileProgress:
    """Progress of a file job."""

    n_done: int
    n_rows: int
    seconds: float


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class FileResult:
    """Result of a file job."""

    path: Path
    """The translated file; valid until the iterator that yielded it is advanced."""
    n_rows: int
    seconds: float
    n_warnings: int
    """Rows whose translation has warnings."""
    scores: Scores | None
    """None without references."""
    worst: tuple[Worst, ...]
    """Lowest-scoring sentences in ascending order of chrF."""


@dataclasses.dataclass(frozen=True, slots=True)
class Files:
    """Handlers of the Files tab."""

    registry: ModelRegistry

    def describe(self, path: str | None, model: str, *, has_header: bool = True) -> Described:
        """Summarize an upload: its columns, and the detected source and reference columns.

        Raises:
            HubNMTError: if there is no file, or it cannot be read.
        """
        config = self.registry.get(model).config
        with model_turn(READ_SECONDS):
            table = tables.read_table(_require_path(path), has_header=has_header)
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
        **options: Unpack[DecodingOptions],
    ) -> Iterator[FileProgress | FileResult]:
        """Translate a column of a file in chunks.

        Args:
            path: the uploaded file.
            model: model reference; empty selects the default model.
            source: column to translate; empty detects it.
            reference: column of reference translations; empty for none.
            has_header: see `tables.read_table`.
            options: fields of `DecodingConfig` that override the model's defaults.

        Yields:
            progress, then the result. Its file is deleted when the iterator ends.

        Raises:
            HubNMTError: if the file, a column, an option or the model is invalid.
        """
        translator = self.registry.get(model)
        decoding = translator.decoding.with_options(**options)
        with _JOBS.place():
            yield from self._translate(
                _require_path(path), translator, source, reference, has_header, decoding
            )

    def _translate(
        self,
        path: Path,
        translator: Translator,
        source: str,
        reference: str,
        has_header: bool,
        decoding: DecodingConfig,
    ) -> Iterator[FileProgress | FileResult]:
        with model_turn(READ_SECONDS):
            table = tables.read_table(path, has_header=has_header)
            source = source or find_source(table, translator.config)
            sources = table.column(source)
            references = table.column(reference) if reference else None
            costs = limits.check_rows(translator, sources, decoding)
        started = time.perf_counter()
        texts: list[str] = []
        n_warnings = 0
        for chunk in chunk_rows(costs):
            seconds = time.perf_counter() - started
            yield FileProgress(n_done=chunk.start, n_rows=len(sources), seconds=seconds)
            with model_turn(sum(costs[chunk])):
                found = translator.translate(sources[chunk], decoding=decoding)
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
    """Split rows into chunks that take about `CHUNK_SECONDS`, of at most `CHUNK_ROWS`."""
    chunks, start, total = [], 0, 0.0
    for end, cost in enumerate(costs):
        if end > start and (end - start >= CHUNK_ROWS or total + cost > CHUNK_SECONDS):
            chunks.append(slice(start, end))
            start, total = end, 0.0
        total += cost
    return [*chunks, slice(start, len(costs))]


def _require_path(path: str | None) -> Path:
    if not path:
        raise InputError("there is no file yet: upload one first")
    return Path(path)


def find_source(table: tables.Table, config: ModelConfig) -> str:
    """Detect the source column: by its name, otherwise the one with the most letters."""
    named = _find(table.columns, (*_names_of(config.src_lang), *SOURCE_NAMES))
    reference = _find(table.columns, (*_names_of(config.tgt_lang), *REFERENCE_NAMES))
    others = [name for name in table.columns if name != reference]
    return named or max(others or table.columns, key=lambda name: _count_letters(table, name))


def find_reference(table: tables.Table, config: ModelConfig) -> str:
    """Detect the reference column by its name; empty if there is none."""
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
    """Return the sentences with the lowest chrF in ascending order."""
    rows = zip(range(1, len(texts) + 1), sources, texts, references, strict=True)
    scored = [Worst(sentence_chrf(row[2], row[3]), *row) for row in rows]
    return tuple(sorted(scored)[:N_WORST])

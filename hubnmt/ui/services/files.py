"""Translation of uploaded files in chunks, with progress and evaluation against references."""

import contextlib
import dataclasses
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Unpack

from hubnmt.config import DecodingOptions, ModelConfig
from hubnmt.errors import InputError
from hubnmt.text.languages import language_name, main_tag
from hubnmt.text.metrics import Scores, score_corpus, sentence_chrf
from hubnmt.types import Translation
from hubnmt.ui.services import limits
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.tables import Table, read_table, write_table
from hubnmt.ui.services.turns import AbandonedError, model_turn

CHUNK_ROWS = 16
CHUNK_WORK = 10_000
"""Maximum rows, and characters times hypotheses, of a chunk: about half a second. Between chunks
progress is reported, cancellation takes effect, and others have their turn."""

N_WORST = 10
"""Number of lowest-scoring sentences shown."""

MAX_NAME_CHARS = 60
"""Maximum length of the name of a result, without its extension."""

SOURCE_NAMES = ("source", "src", "text", "sentence", "input")
REFERENCE_NAMES = ("reference", "ref", "target", "tgt", "translation")
"""Common column names, in addition to the language's tag and name."""


class FileColumns(NamedTuple):
    """Columns of an uploaded file."""

    names: tuple[str, ...]
    source: str
    """Detected source column."""
    reference: str
    """Detected reference column; empty if none."""


class RowWarnings(NamedTuple):
    """A row, counted from 1 without the header, whose translation has warnings."""

    row: int
    warnings: tuple[str, ...]


class RowScore(NamedTuple):
    """The chrF score of a row, counted from 1."""

    chrf: float
    row: int
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
    n_done: int
    """Fewer than `n_rows` if the job was cancelled; then the file ends there."""
    n_rows: int
    seconds: float
    warnings: tuple[RowWarnings, ...]
    scores: Scores | None
    """None without references."""
    worst: tuple[RowScore, ...]
    """Lowest-scoring sentences in ascending order of chrF."""


@dataclasses.dataclass(frozen=True, slots=True)
class Files:
    """Handlers of the Files tab."""

    registry: ModelRegistry

    def describe(self, path: str | None, model: str, *, has_header: bool = True) -> FileColumns:
        """Read an upload and detect its columns.

        Raises:
            HubNMTError: if there is no file, or it cannot be read.
        """
        config = self.registry.get(model).config
        return _detect_columns(read_table(_check_path(path), has_header=has_header), config)

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
            model: model reference.
            source: column to translate; empty detects it.
            reference: column of reference translations; empty for none.
            has_header: whether the first line of a tsv or csv file contains column names.
            options: override the model's defaults.

        Yields:
            progress, then the result, also of a cancelled job. Its file is named like the upload
            with the target language, and is deleted when the iterator ends.

        Raises:
            HubNMTError: if the file, a column, an option or the model is invalid.
        """
        # 1. Check the request.
        translator = self.registry.get(model)
        decoding = translator.decoding.with_options(**options)
        upload = _check_path(path)
        table = read_table(upload, has_header=has_header)
        source = source or _detect_columns(table, translator.config).source
        sources = table.column(source)
        references = table.column(reference) if reference else []
        limits.check_rows(sources, decoding)
        # 2. Translate; what is done is kept if the job is cancelled.
        started = time.perf_counter()
        found: list[Translation] = []
        with contextlib.suppress(AbandonedError):
            for chunk in _chunks(sources, limits.count_hypotheses(decoding)):
                seconds = time.perf_counter() - started
                yield FileProgress(n_done=len(found), n_rows=len(sources), seconds=seconds)
                with model_turn():
                    found += translator.translate(sources[chunk], decoding=decoding)
        # 3. Evaluate and write.
        texts = [translation.text for translation in found]
        references = references[: len(texts)]
        with tempfile.TemporaryDirectory(prefix="hubnmt-") as folder:
            result = Path(folder) / _name_result(upload, translator.config)
            result.write_text(write_table(table, texts, source), encoding="utf-8", newline="")
            yield FileResult(
                path=result,
                n_done=len(texts),
                n_rows=len(sources),
                seconds=time.perf_counter() - started,
                warnings=tuple(
                    RowWarnings(row, translation.warnings)
                    for row, translation in enumerate(found, 1)
                    if translation.warnings
                ),
                scores=score_corpus(texts, references) if references else None,
                worst=find_worst(sources, texts, references),
            )


def _chunks(rows: Sequence[str], n_hypotheses: int) -> Iterator[slice]:
    """Split rows into chunks of at most `CHUNK_ROWS` and about `CHUNK_WORK`."""
    start = n_chars = 0
    for end, row in enumerate(rows):
        is_full = (n_chars + len(row)) * n_hypotheses > CHUNK_WORK
        if end > start and (end - start >= CHUNK_ROWS or is_full):
            yield slice(start, end)
            start, n_chars = end, 0
        n_chars += len(row)
    yield slice(start, len(rows))


def _name_result(upload: Path, config: ModelConfig) -> str:
    stem = upload.stem.removesuffix(f".{config.src_lang}")[:MAX_NAME_CHARS]
    return f"{stem}.{config.tgt_lang}{upload.suffix.lower()}"


def _check_path(path: str | None) -> Path:
    if not path:
        raise InputError("there is no file yet: upload one first")
    return Path(path)


def _detect_columns(table: Table, config: ModelConfig) -> FileColumns:
    """Detect columns by their names; the source otherwise as the one with the most letters."""

    def find(names: Sequence[str], tag: str, common: Sequence[str]) -> str:
        lowered = {name.lower(): name for name in reversed(names)}
        wanted = map(str.lower, (tag, main_tag(tag), language_name(tag), *common))
        return next((lowered[name] for name in wanted if name in lowered), "")

    def count_letters(name: str) -> int:
        cells = (str(row.get(name, "")) for row in table.rows)
        return sum(sum(map(str.isalpha, cell)) for cell in cells)

    def without(column: str) -> list[str]:
        return [name for name in table.columns if name != column]

    reference = find(table.columns, config.tgt_lang, REFERENCE_NAMES)
    source = find(table.columns, config.src_lang, SOURCE_NAMES)
    source = source or max(without(reference) or table.columns, key=count_letters)
    reference = find(without(source), config.tgt_lang, REFERENCE_NAMES)
    return FileColumns(table.columns, source, reference)


def find_worst(
    sources: Sequence[str], texts: Sequence[str], references: Sequence[str]
) -> tuple[RowScore, ...]:
    """Return the rows with the lowest chrF in ascending order; none without references."""
    rows = zip(range(1, len(references) + 1), sources, texts, references, strict=False)
    scored = [RowScore(sentence_chrf(row[2], row[3]), *row) for row in rows]
    return tuple(sorted(scored)[:N_WORST])

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
from hubnmt.ui.services import limits, tables
from hubnmt.ui.services.registry import ModelRegistry
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


class Described(NamedTuple):
    """Summary of an uploaded file."""

    columns: tuple[str, ...]
    source: str
    """Detected source column."""
    reference: str
    """Detected reference column; empty if none."""
    n_rows: int


class Warned(NamedTuple):
    """A row whose translation has warnings."""

    row: int
    """Row number, from 1, without the header."""
    warnings: tuple[str, ...]


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
    n_done: int
    """Fewer than `n_rows` if the job was cancelled; then the file ends there."""
    n_rows: int
    seconds: float
    warnings: tuple[Warned, ...]
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
            progress, then the result, also of a cancelled job. Its file is named like the upload
            with the target language, and is deleted when the iterator ends.

        Raises:
            HubNMTError: if the file, a column, an option or the model is invalid.
        """
        translator = self.registry.get(model)
        decoding = translator.decoding.with_options(**options)
        upload = _require_path(path)
        table = tables.read_table(upload, has_header=has_header)
        source = source or find_source(table, translator.config)
        sources = table.column(source)
        references = table.column(reference) if reference else None
        limits.check_rows(sources, decoding)
        started = time.perf_counter()
        found: list[Translation] = []
        with contextlib.suppress(AbandonedError):  # what is done is kept
            for chunk in chunk_rows(sources, limits.count_hypotheses(decoding)):
                seconds = time.perf_counter() - started
                yield FileProgress(n_done=len(found), n_rows=len(sources), seconds=seconds)
                with model_turn():
                    found += translator.translate(sources[chunk], decoding=decoding)
        texts = [each.text for each in found]
        scored = None if references is None or not texts else references[: len(texts)]
        with tempfile.TemporaryDirectory(prefix="hubnmt-") as folder:
            result = Path(folder) / _name_result(upload, translator.config)
            written = tables.write_table(table, texts, source)
            result.write_text(written, encoding="utf-8", newline="")
            yield FileResult(
                path=result,
                n_done=len(texts),
                n_rows=len(sources),
                seconds=time.perf_counter() - started,
                warnings=tuple(
                    Warned(n, each.warnings) for n, each in enumerate(found, 1) if each.warnings
                ),
                scores=None if scored is None else score_corpus(texts, scored),
                worst=() if scored is None else find_worst(sources[: len(texts)], texts, scored),
            )


def chunk_rows(rows: Sequence[str], n_hypotheses: int) -> Iterator[slice]:
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

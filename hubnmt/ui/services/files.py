"""Translation of uploaded files in chunks, with progress and evaluation against references."""

import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Unpack

from hubnmt.config import DecodingOptions, ModelConfig
from hubnmt.errors import InputError
from hubnmt.text.metrics import Scores, score_corpus, sentence_chrf
from hubnmt.types import Translation
from hubnmt.ui.services import limits
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.tables import read_table, write_table
from hubnmt.ui.services.turns import AbandonedError, model_turn

CHUNK_ROWS = 16
CHUNK_WORK = 10_000
"""Maximum rows, and characters times hypotheses, of a chunk: about half a second. Between chunks
progress is reported, cancellation takes effect, and others have their turn."""

N_WORST = 10
"""Number of lowest-scoring sentences shown."""

MAX_NAME_CHARS = 60
"""Maximum length of the name of a result, without its extension."""


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


class FileProgress(NamedTuple):
    """Progress of a file job."""

    n_done: int
    n_rows: int
    seconds: float


class FileResult(NamedTuple):
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


def translate_file(
    registry: ModelRegistry,
    path: str | None,
    model: str,
    *,
    source: str = "",
    reference: str = "",
    has_header: bool = True,
    **options: Unpack[DecodingOptions],
) -> Iterator[FileProgress | FileResult]:
    """Translate a column of a file in chunks.

    `source` may be empty if there is only one column; `reference` is a column of reference
    translations, empty for none.

    Yields:
        progress, then the result, also of a cancelled job. Its file is named like the upload
        with the target language, and is deleted when the iterator ends.
    """
    # 1. Check the request.
    translator = registry.get(model)
    decoding = translator.decoding.with_options(**options)
    if not path:
        raise InputError("there is no file yet: upload one first")
    upload = Path(path)
    table = read_table(upload, has_header=has_header)
    if not source and len(table.columns) == 1:
        source = table.columns[0]
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


def find_worst(
    sources: Sequence[str], texts: Sequence[str], references: Sequence[str]
) -> tuple[RowScore, ...]:
    """Return the rows with the lowest chrF in ascending order; none without references."""
    rows = zip(range(1, len(references) + 1), sources, texts, references, strict=False)
    scored = [RowScore(sentence_chrf(row[2], row[3]), *row) for row in rows]
    return tuple(sorted(scored)[:N_WORST])

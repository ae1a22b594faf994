"""`TranslateBatch`: a picklable callable for `datasets.map`, Ray Data and Spark."""

import logging
from collections.abc import Mapping
from typing import Any, Unpack

from hubnmt.errors import InputError
from hubnmt.pipeline.segmentation import check_text
from hubnmt.translator import Translator
from hubnmt.types import TranslateOptions, Translation

_log = logging.getLogger(__name__)


class TranslateBatch:
    """Add a column of translations to a batch of rows.

    A batch is a mapping of columns, as in `datasets` and Ray Data, or a pandas data frame, as in
    Spark's `mapInPandas`. Pickling leaves the model out: each process loads it once, at its first
    batch. All texts of a batch are sorted by length and decoded together, see `max_batch_tokens`.

    Example:
        >>> translate = TranslateBatch("de-en-multi30k", src_column="de", tgt_column="en")
        >>> translate({"id": [7], "de": ["Ein Hund rennt im Schnee."]})
        {'id': [7], 'de': ['Ein Hund rennt im Schnee.'], 'en': ['A dog runs in the snow.']}
    """

    def __init__(
        self,
        model: str,
        *,
        src_column: str,
        tgt_column: str = "translation",
        score_column: str | None = None,
        problem_column: str | None = None,
        device: str = "cpu",
        dtype: str = "float32",
        engine: str = "torch",
        **decoding: Unpack[TranslateOptions],
    ) -> None:
        """Name the model and the columns; nothing is loaded yet.

        Args:
            model: see `Translator.from_pretrained`; each process must be able to read it.
            src_column: the column of texts.
            tgt_column: the new column of translations; None where a row cannot be translated.
            score_column: if given, a new column of scores, see `Candidate`; None for such rows.
            problem_column: if given, the reason why a row cannot be translated, a new column, or
                None; without it, such rows are logged as warnings.
            device: see `Translator`.
            dtype: see `Translator`.
            engine: see `Translator`.
            decoding: keyword arguments of `Translator.translate`.
        """
        self.model = model
        self.src_column = src_column
        self.tgt_column = tgt_column
        self.score_column = score_column
        self.problem_column = problem_column
        self.device = device
        self.dtype = dtype
        self.engine = engine
        self._decoding = decoding
        self._translator: Translator | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave the model out."""
        return {**self.__dict__, "_translator": None}

    def __call__(self, batch: Any) -> Any:
        """Return the batch with its new columns.

        Raises:
            HubNMTError: if the model cannot be loaded or an option has an invalid value.
        """
        added = self._translate(list(batch[self.src_column]))
        if isinstance(batch, Mapping):
            return {**batch, **added}
        return batch.assign(**added)

    def load(self) -> Translator:
        """Return the model, loaded by the first call, after validating the options.

        Raises:
            HubNMTError: if the model cannot be loaded or an option has an invalid value.
        """
        if self._translator is None:
            translator = Translator.from_pretrained(
                self.model, device=self.device, dtype=self.dtype, engine=self.engine
            )
            translator.translate([], **self._decoding)
            self._translator = translator
        return self._translator

    def _translate(self, texts: list[Any]) -> dict[str, list[Any]]:
        """Return the new columns."""
        problems = [_find_problem(text) for text in texts]
        good = [text for text, problem in zip(texts, problems, strict=True) if problem is None]
        found = iter(self.load().translate(good, **self._decoding))
        rows: list[Translation | None] = [None if each else next(found) for each in problems]
        columns: dict[str, list[Any]] = {self.tgt_column: [row and row.text for row in rows]}
        if self.score_column:
            columns[self.score_column] = [row and row.score for row in rows]
        if self.problem_column:
            columns[self.problem_column] = problems
        else:
            for number, problem in enumerate(problems, start=1):
                if problem:
                    _log.warning("row %d of the batch is not translated: %s", number, problem)
        return columns


def _find_problem(text: Any) -> str | None:
    try:
        check_text(text)
    except InputError as error:
        return str(error)
    return None

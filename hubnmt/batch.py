"""`TranslateBatch`: a class for `ray.data.Dataset.map_batches`, also for `datasets` and Spark."""

import logging
from collections.abc import Mapping
from typing import Any, Unpack

from hubnmt.errors import InputError
from hubnmt.pipeline.segmentation import check_text
from hubnmt.translator import Translator
from hubnmt.types import TranslateOptions

_log = logging.getLogger(__name__)


class TranslateBatch:
    """Add a column of translations to a batch of rows.

    A batch is a mapping of columns, as in Ray Data and `datasets`, or a pandas data frame, as in
    Spark's `mapInPandas`. All its texts are sorted by length and decoded together, see
    `max_batch_tokens`. Pickling leaves the model out: each process loads it at its first batch.

    Example:
        >>> translate = TranslateBatch("de-en-multi30k", column="de", output="en")
        >>> translate({"id": [7], "de": ["Ein Hund rennt im Schnee."]})
        {'id': [7], 'de': ['Ein Hund rennt im Schnee.'], 'en': ['A dog runs in the snow.']}
    """

    def __init__(
        self,
        model: str,
        column: str = "text",
        output: str = "translation",
        *,
        device: str = "cpu",
        dtype: str = "float32",
        engine: str = "torch",
        **options: Unpack[TranslateOptions],
    ) -> None:
        """Name the model, which each process must be able to read; nothing is loaded yet.

        The new column has None where a row cannot be translated, which is logged as a warning. The
        model is loaded as by `Translator.from_pretrained`; `options` are those of `translate`.
        """
        self.model, self.column, self.output = model, column, output
        self._device, self._dtype, self._engine = device, dtype, engine
        self._options = options
        self._translator: Translator | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave the model out."""
        return {**self.__dict__, "_translator": None}

    def __call__(self, batch: Any) -> Any:
        """Return the batch with its new column.

        Raises:
            HubNMTError: if the model cannot be loaded or an option has an invalid value.
        """
        if self._translator is None:
            self._translator = Translator.from_pretrained(
                self.model, device=self._device, dtype=self._dtype, engine=self._engine
            )
        texts = list(batch[self.column])
        is_good = [_is_text(text, number) for number, text in enumerate(texts, start=1)]
        good = [text for text, is_text in zip(texts, is_good, strict=True) if is_text]
        found = iter(self._translator.translate(good, **self._options))
        column = [next(found).text if is_text else None for is_text in is_good]
        if isinstance(batch, Mapping):
            return {**batch, self.output: column}
        return batch.assign(**{self.output: column})


def _is_text(text: Any, number: int) -> bool:
    try:
        check_text(text)
    except InputError as error:
        _log.warning("row %d of the batch is not translated: %s", number, error)
        return False
    return True

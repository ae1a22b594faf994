"""What of a translation is looked at: one sentence of one of the n best, read with suspicion.

Takes what the page keeps beside a translation (see `Answer.alternatives`) and sends back, gives the
source sentence and the tokens of its translation. Must not know Gradio, torch or HTML.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, Self

from hubnmt.errors import InputError
from hubnmt.pipeline.assemble import decode_line
from hubnmt.translator import Translator
from hubnmt.types import Candidate
from hubnmt.ui.services import limits

MAX_KEPT = 16
"""Translations of one text that the page keeps side by side."""


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """What is looked at."""

    value: dict[str, Any]
    """As the page keeps it: `src`, `model`, `sentences`, `candidates`, `selected`, `sentence`."""
    src: str
    """The chosen sentence of the source."""
    sentence: int
    """Its number, from 0."""
    rows: tuple[tuple[int, ...], ...]
    """Target tokens of every sentence of the chosen translation, without special ones."""

    @classmethod
    def read(cls, value: Any, translator: Translator) -> Self:
        """Read what the page says is looked at.

        Raises:
            InputError: if it is not what this page sends, or too much.
        """
        try:
            number = read_index(value["sentence"])
            start, end = (read_index(place) for place in value["sentences"][number])
            rows = value["candidates"][read_index(value["selected"])]["rows"]
            rows = tuple(tuple(read_index(token_id) for token_id in row) for row in rows)
            is_whole = len(rows) == len(value["sentences"])
            is_whole &= all(isinstance(each["text"], str) for each in value["candidates"])
            src = value["src"][start:end]
        except (KeyError, IndexError, TypeError, ValueError):
            raise InputError("this is no translation of the page; translate again") from None
        tokenizer = translator.tgt_tokenizer
        special = {tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id}
        ids = set(itertools.chain.from_iterable(rows))
        if not is_whole or ids & special or max(ids, default=0) >= tokenizer.vocab_size:
            raise InputError("this translation is of another model; translate again")
        if len(rows[number]) > limits.MAX_NEW_TOKENS:
            raise InputError(
                f"too long to look inside: {len(rows[number]):,} tokens, at most "
                f"{limits.MAX_NEW_TOKENS} are taken"
            )
        limits.check_text(src)
        limits.check_work(translator, src, {})
        return cls(value, src, number, rows)

    @property
    def row(self) -> tuple[int, ...]:
        """Tokens of the chosen sentence's translation."""
        return self.rows[self.sentence]

    @property
    def candidate(self) -> Candidate:
        """The chosen sentence's translation, as it was searched."""
        return Candidate("", 0.0, (self.row,))

    def replace_row(self, row: Sequence[int], translator: Translator) -> dict[str, Any]:
        """Put a new translation of the chosen sentence in front of the others.

        Returns:
            the page's value with it selected; its probability is None: nobody searched for it.
        """
        rows = [*self.rows]
        rows[self.sentence] = tuple(row)
        texts = [decode_line(each, translator.tgt_tokenizer) for each in rows]
        text = self._join(texts)
        made = {"text": text, "probability": None, "rows": [list(each) for each in rows]}
        others = [each for each in self.value["candidates"] if each["text"] != text]
        return {**self.value, "candidates": [made, *others][:MAX_KEPT], "selected": 0}

    def _join(self, texts: Sequence[str]) -> str:
        """Put sentences between the white space of the source."""
        src, joined, behind = str(self.value["src"]), "", 0
        for (start, end), text in zip(self.value["sentences"], texts, strict=True):
            joined += src[behind:start] + text
            behind = end
        return joined + src[behind:]


def read_index(value: Any) -> int:
    """Read a number from 0 on.

    Raises:
        ValueError: if it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError
    return value

"""Validate the translation state that the browser sends back and select one sentence of it.

The browser is untrusted: every field is checked before it reaches a model.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, Self

from hubnmt.errors import InputError
from hubnmt.pipeline.align_sentences import Pair, pair_sentences
from hubnmt.pipeline.segmentation import encode_whole
from hubnmt.pipeline.sentence import decode_line
from hubnmt.text.tokenizer import Tokenizer
from hubnmt.translator import Translator
from hubnmt.types import Candidate
from hubnmt.ui.services import limits
from hubnmt.ui.services.unsure import bind_sentence, find_unsure

MAX_KEPT = 16
"""Maximum number of candidate translations kept per source text."""


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """One sentence of one candidate translation, selected in the page."""

    value: dict[str, Any]
    """State held by the page: `src`, `model`, `sentences`, `candidates`, `selected`, `sentence`."""
    src: str
    """The selected source sentence."""
    sentence: int
    """Its index, from 0."""
    rows: tuple[tuple[int, ...], ...]
    """Target token ids of each sentence of the selected candidate, without special tokens."""

    @classmethod
    def read(cls, value: Any, translator: Translator) -> Self:
        """Validate the state sent by the page.

        Raises:
            InputError: if the state is malformed or exceeds a limit.
        """
        try:
            number = read_index(value["sentence"])
            start, end = (read_index(offset) for offset in value["sentences"][number])
            rows = value["candidates"][read_index(value["selected"])]["rows"]
            rows = tuple(tuple(read_index(token_id) for token_id in row) for row in rows)
            is_whole = len(rows) == len(value["sentences"])
            is_whole &= all(isinstance(each["text"], str) for each in value["candidates"])
            src = value["src"][start:end]
        except (KeyError, IndexError, TypeError, ValueError):
            raise InputError("invalid translation state; translate again") from None
        tokenizer = translator.tokenizers.tgt
        special = {tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id}
        ids = set(itertools.chain.from_iterable(rows))
        if not is_whole or ids & special or max(ids, default=0) >= tokenizer.vocab_size:
            raise InputError("this translation was made by another model; translate again")
        if len(rows[number]) > limits.MAX_NEW_TOKENS:
            raise InputError(
                f"too long to inspect: {len(rows[number]):,} tokens; the limit is "
                f"{limits.MAX_NEW_TOKENS}"
            )
        limits.check_text(src)
        limits.check_search(src, translator.decoding)
        return cls(value, src, number, rows)

    @property
    def row(self) -> tuple[int, ...]:
        """Token ids of the selected sentence's translation."""
        return self.rows[self.sentence]

    @property
    def candidate(self) -> Candidate:
        """The selected sentence's translation, with its original tokenization."""
        return Candidate("", 0.0, (self.row,))

    @property
    def alone(self) -> dict[str, Any]:
        """The state of a page that holds only this sentence."""
        return sentence_state(self.value["model"], self.src, self.row)

    def pair(self, translator: Translator) -> Pair:
        """Return the ids of the sentence and its translation, with placeholders as translated."""
        tokenizers, config = translator.tokenizers, translator.config
        return pair_sentences(self.src, self.candidate, tokenizers, config=config, split=False)[0]

    def tokenizer(self, translator: Translator) -> Tokenizer:
        """Return the target tokenizer with the protected spans of the selected sentence."""
        return bind_sentence(translator, self.src)

    def replace_row(self, row: Sequence[int], translator: Translator) -> dict[str, Any]:
        """Insert a new translation of the selected sentence as the first candidate.

        Returns:
            the page's state with the new candidate selected; its probability is None, because no
            search produced it.
        """
        rows = [*self.rows]
        rows[self.sentence] = tuple(row)
        bound = [bind_sentence(translator, each) for each in self._sentences]
        texts = [decode_line(each, tokenizer) for each, tokenizer in zip(rows, bound, strict=True)]
        text = self._join(texts)
        made = {
            "text": text,
            "probability": None,
            "rows": [list(each) for each in rows],
            "unsure": find_unsure(text, rows, self._replay(rows, translator), bound),
        }
        others = [each for each in self.value["candidates"] if each["text"] != text]
        return {**self.value, "candidates": [made, *others][:MAX_KEPT], "selected": 0}

    @property
    def _sentences(self) -> list[str]:
        return [self.value["src"][start:end] for start, end in self.value["sentences"]]

    def _replay(self, rows: Sequence[Sequence[int]], translator: Translator) -> Any:
        """Return the log-probabilities of the tokens of each sentence, eos included."""
        pairs = [
            (encode_whole(each, translator.tokenizers.src).ids, row)
            for each, row in zip(self._sentences, rows, strict=True)
        ]
        return translator.replay(pairs)

    def _join(self, texts: Sequence[str]) -> str:
        """Join translated sentences with the whitespace of the source."""
        src, joined, behind = str(self.value["src"]), "", 0
        for (start, end), text in zip(self.value["sentences"], texts, strict=True):
            joined += src[behind:start] + text
            behind = end
        return joined + src[behind:]


def read_index(value: Any) -> int:
    """Return a value if it is a non-negative integer.

    Raises:
        ValueError: if it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError
    return value


def sentence_state(model: str, src: str, row: Sequence[int]) -> dict[str, Any]:
    """Return the state of a page with one sentence and one translation.

    Args:
        model: model reference.
        src: the source sentence.
        row: target token ids without special tokens.
    """
    return {
        "src": src,
        "model": model,
        "sentences": [[0, len(src)]],
        "candidates": [{"text": "", "rows": [list(row)]}],
        "selected": 0,
        "sentence": 0,
    }

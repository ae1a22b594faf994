"""The translation state that the page keeps: one sentence of it, and the words that are unsure.

The browser is untrusted: every field is checked before it reaches a model.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, Self, TypeGuard

from hubnmt.attention.maps import Span, TokenSpans
from hubnmt.attention.replay import locate
from hubnmt.errors import InputError
from hubnmt.pipeline.segmentation import encode_whole
from hubnmt.pipeline.targets import SentenceIds, pair_sentences
from hubnmt.text.characters import number_words
from hubnmt.text.protected_spans import choose_spans
from hubnmt.text.tokenizer import Tokenizer
from hubnmt.translator import Translator
from hubnmt.types import UNSURE, Candidate, Translation
from hubnmt.ui.services import limits
from hubnmt.ui.services.registry import ModelRegistry

MAX_CANDIDATES = 16
"""Maximum number of candidate translations kept per source text."""


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """One sentence of one candidate translation, selected in the page."""

    state: dict[str, Any]
    """State held by the page: `src`, `model`, the spans of its `sentences`, the `candidates` with
    token ids per sentence and the spans of `unsure` words, and the indices `selected` and
    `sentence`."""
    src: str
    """The selected source sentence."""
    sentence: int
    """Its index, from 0."""
    rows: tuple[tuple[int, ...], ...]
    """Target token ids of each sentence of the selected candidate, without special tokens."""

    @classmethod
    def read(cls, state: Any, translator: Translator) -> Self:
        """Validate the state sent by the page."""
        try:
            number = read_index(state["sentence"])
            start, end = (read_index(offset) for offset in state["sentences"][number])
            rows = state["candidates"][read_index(state["selected"])]["rows"]
            rows = tuple(tuple(read_index(token_id) for token_id in row) for row in rows)
            is_whole = len(rows) == len(state["sentences"])
            is_whole &= all(isinstance(made["text"], str) for made in state["candidates"])
            src = state["src"][start:end]
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
        return cls(state, src, number, rows)

    @property
    def row(self) -> tuple[int, ...]:
        """Token ids of the selected sentence's translation."""
        return self.rows[self.sentence]

    @property
    def candidate(self) -> Candidate:
        """The selected sentence's translation, with its original tokenization."""
        return Candidate("", 0.0, (self.row,))

    def pair(self, translator: Translator) -> SentenceIds:
        """Return the ids of the sentence and its translation, with placeholders as translated."""
        tokenizers, config = translator.tokenizers, translator.config
        return pair_sentences(self.src, self.candidate, tokenizers, config=config, split=False)[0]

    def replace_row(self, row: Sequence[int], translator: Translator) -> dict[str, Any]:
        """Insert a new translation of the selected sentence as the first candidate.

        Returns:
            the page's state with the new candidate selected; its probability is None, because no
            search produced it.
        """
        rows = [*self.rows]
        rows[self.sentence] = tuple(row)
        src, spans = str(self.state["src"]), self.state["sentences"]
        sentences = [src[start:end] for start, end in spans]
        tokenizers = [bind_sentence(translator, sentence) for sentence in sentences]
        # Join the translated sentences with the whitespace of the source.
        text, behind = "", 0
        for (start, end), ids, tokenizer in zip(spans, rows, tokenizers, strict=True):
            text += src[behind:start] + tokenizer.decode_line(ids)
            behind = end
        text += src[behind:]
        src_ids = (encode_whole(sentence, translator.tokenizers.src).ids for sentence in sentences)
        log_probs = translator.replay(list(zip(src_ids, rows, strict=True)))
        made = {
            "text": text,
            "probability": None,
            "rows": [list(ids) for ids in rows],
            "unsure": find_unsure(text, rows, log_probs, tokenizers),
        }
        others = [other for other in self.state["candidates"] if other["text"] != text]
        return {**self.state, "candidates": [made, *others][:MAX_CANDIDATES], "selected": 0}


def read_subject(registry: ModelRegistry, state: Any) -> tuple[Translator, Subject]:
    """Validate the state sent by the page, and load its model."""
    model = state.get("model") if isinstance(state, dict) else None
    translator = registry.get(model)  # type: ignore[arg-type]  # rejects non-strings
    return translator, Subject.read(state, translator)


def is_index(value: Any, n: float = math.inf) -> TypeGuard[int]:
    """Return whether a value is an integer from 0 to n - 1."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < n


def read_index(value: Any) -> int:
    """Return a value if it is an index; raise a `ValueError` if it is not."""
    if not is_index(value):
        raise ValueError
    return value


def page_state(text: str, model: str, found: Translation, translator: Translator) -> dict[str, Any]:
    """Return the state of a page with a new translation."""
    tokenizers = [bind_sentence(translator, text[slice(*pair.src)]) for pair in found.sentences]
    return {
        "src": text,
        "model": model,
        "sentences": [list(pair.src) for pair in found.sentences],
        "candidates": [
            {
                "text": made.text,
                "probability": made.token_probability,
                "rows": [list(row) for row in made.tgt_ids],
                "unsure": find_unsure(made.text, made.tgt_ids, made.tgt_log_probs, tokenizers),
            }
            for made in found.n_best
        ],
        "selected": 0,
        "sentence": 0,
    }


def bind_sentence(translator: Translator, sentence: str) -> Tokenizer:
    """Return the target tokenizer with the protected spans of a source sentence."""
    return translator.tokenizers.tgt.with_spans(choose_spans(sentence))


def rate_words(
    tokens: TokenSpans, log_probs: Sequence[float]
) -> Iterator[tuple[str, int, float, Span]]:
    """Yield each word with its first token, its probability, and its span in characters.

    A word's probability is the product of its tokens', whose `log_probs` are in nats.
    """
    words, sizes = tokens.group(number_words)
    at = 0
    for number, (word, size) in enumerate(zip(words.tokens, sizes, strict=True)):
        probability = math.exp(min(sum(log_probs[at : at + size]), 0.0))
        yield word, at, probability, words.word_span(number)
        at += size


def find_unsure(
    text: str,
    rows: Sequence[Sequence[int]],
    log_probs: Sequence[Sequence[float]],
    tokenizers: Sequence[Tokenizer],
) -> list[list[int]]:
    """Return the start and end, in characters, of each word less probable than `UNSURE`.

    `rows` are the token ids of each sentence without special tokens, `log_probs` those of each
    token and eos in nats, `tokenizers` have the protected spans of each sentence.
    """
    found: list[list[int]] = []
    behind = 0
    for row, values, tokenizer in zip(rows, log_probs, tokenizers, strict=False):
        tokens = locate(row, tokenizer)
        sentence = tokens.text.strip()
        start = max(text.find(sentence, behind), behind)
        moved = start - tokens.text.index(sentence)
        for _, _, probability, (first, last) in rate_words(tokens, values):
            if probability < UNSURE and any(map(str.isalnum, tokens.text[first:last])):
                found.append([first + moved, last + moved])
        behind = start + len(sentence)
    return found

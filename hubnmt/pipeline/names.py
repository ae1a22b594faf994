"""Restore names that a translation spells almost, but not quite, like its source.

A small model often changes a piece of a rare name ("Ancelotti" becomes "Oncelotti"). The name of
the source replaces such a word if the model is not sure of it and this costs little of the
translation's log-probability. `tests/benchmarks/names.py` counts the names that are kept.
"""

import difflib
import re
from collections.abc import Callable
from typing import Final

from hubnmt.decoding import Hypothesis
from hubnmt.pipeline.protection import IdPairs
from hubnmt.pipeline.segmentation import Part
from hubnmt.text.tokenizer import Tokenizer, Tokenizers
from hubnmt.types import mean_probability

MIN_LETTERS: Final = 4
MIN_SIMILARITY: Final = 0.6
"""Ratio of `difflib.SequenceMatcher`, without regard to case."""
MIN_PIECES: Final = 3
"""Pieces of the word in the translation; common words have fewer."""
MAX_LOSS: Final = 8.0
"""Log-probability that the replacement may cost, in nats."""
MAX_PROBABILITY: Final = 0.8
"""Mean token probability above which a word of the translation is kept."""
_WORD: Final = re.compile(r"[^\W\d_]+")


def find_changed_names(src: str, tgt: str, tokenizer: Tokenizer) -> list[tuple[str, str]]:
    """Return words of the source that may be names, with the similar target word of each.

    Args:
        src: one sentence.
        tgt: its translation.
        tokenizer: target tokenizer; counts the pieces of a word.
    """
    src_words, tgt_words = (list(dict.fromkeys(_WORD.findall(text))) for text in (src, tgt))
    copied = {word.lower() for word in tgt_words}
    names = [
        word
        for word in src_words
        if len(word) >= MIN_LETTERS and word.istitle() and word.lower() not in copied
    ]
    rare = [
        word
        for word in tgt_words
        if word[0].isupper() and word not in src_words and _n_pieces(word, tokenizer) >= MIN_PIECES
    ]
    pairs = []
    for name in names:
        similarities = [
            difflib.SequenceMatcher(None, name.lower(), word.lower()).ratio() for word in rare
        ]
        if max(similarities, default=0.0) >= MIN_SIMILARITY:
            pairs.append((name, rare[similarities.index(max(similarities))]))
    return pairs


def _n_pieces(word: str, tokenizer: Tokenizer) -> int:
    return min(len(tokenizer.encode(each)) for each in (word, word.lower()))


def _word_probability(word: str, text: str, hypothesis: Hypothesis, tokenizer: Tokenizer) -> float:
    """Return the mean token probability of the first occurrence of a word in a translation."""
    start = len(text[: text.index(word)].encode())
    end = start + len(word.encode())
    spans = zip(tokenizer.offsets(hypothesis.ids), hypothesis.token_log_probs, strict=False)
    return mean_probability(
        [log_prob for (first, last), log_prob in spans if first < end and last > start]
    )


def restore_names(
    part: Part,
    hypothesis: Hypothesis,
    tokenizers: Tokenizers,
    score: Callable[[IdPairs], list[Hypothesis]],
) -> Hypothesis:
    """Return a hypothesis with the names of its source, as far as the model agrees.

    Args:
        part: the part of the source.
        hypothesis: its translation.
        tokenizers: source and target tokenizer.
        score: scores a candidate, see `hubnmt.pipeline.protection.rescore`.
    """
    src = tokenizers.src.with_spans(part.protected).decode(part.ids)
    tokenizer = tokenizers.tgt.with_spans(part.protected)
    text = tokenizer.decode(hypothesis.ids)
    for name, word in find_changed_names(src, text, tokenizer):
        if (
            word not in text  # another name has replaced it
            or _word_probability(word, text, hypothesis, tokenizer) > MAX_PROBABILITY
        ):
            continue
        restored = re.sub(rf"\b{word}\b", name, text)
        (candidate,) = score([(part.ids, tokenizer.encode(restored))])
        if candidate.log_prob >= hypothesis.log_prob - MAX_LOSS:
            hypothesis, text = candidate, restored
    return hypothesis

"""Restore names that a translation has changed or lost.

A small model often changes a piece of a rare name ("Ancelotti" becomes "Oncelotti"). The name of
the source replaces such a word if the model is not sure of it and this costs little of the
translation's log-probability. A sentence that has lost names otherwise is translated again with
placeholders in their place, if the model is surer of the result. `tests/benchmarks/names.py` counts
the names that are kept.
"""

import difflib
import re
from collections.abc import Callable, Generator, Sequence
from typing import Final

from hubnmt.decoding import Hypothesis, Search
from hubnmt.pipeline.protection import IdPairs, keeps_spans
from hubnmt.pipeline.segmentation import Part
from hubnmt.text.protected_spans import PLACEHOLDERS
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
MIN_RARE_PIECES: Final = 2
"""Pieces of a word of the source that may be a lost name."""
MIN_GAIN: Final = 0.1
"""Mean token probability that a translation with placeholders for lost names must gain."""
_WORD: Final = re.compile(r"[^\W\d_]+")
_NAME: Final = re.compile(r"(?<!['’\w])[^\W\d_]{2,}(?:-[^\W\d_]+)*(?!['’\w])")


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


def find_lost_names(src: str, tgt: str, tokenizer: Tokenizer) -> list[str]:
    """Return sequences of rare capitalised words of the source that the translation lacks.

    Args:
        src: one sentence of a language that does not capitalise all nouns.
        tgt: its translation.
        tokenizer: source tokenizer; counts the pieces of a word.
    """
    lost: list[list[re.Match[str]]] = []
    for match in _NAME.finditer(src):
        word = match.group()
        if (
            not word[0].isupper()
            or word in tgt
            or len(word) < MIN_LETTERS  # titles, which are translated
            or _n_pieces(word, tokenizer) < MIN_RARE_PIECES
        ):
            continue
        if lost and src[lost[-1][-1].end() : match.start()] == " ":
            lost[-1].append(match)
        else:
            lost.append([match])
    found = [
        src[words[0].start() : words[-1].end()]
        for words in lost
        # The first word of a sentence has a capital in any case.
        if len(words) > 1 or _WORD.search(src, 0, words[0].start())
    ]
    return list(dict.fromkeys(found))


def protect_lost_names(part: Part, hypothesis: Hypothesis, tokenizers: Tokenizers) -> Part | None:
    """Return a part with placeholders for the names that its translation lost; None if none.

    Args:
        part: the part of the source.
        hypothesis: its translation.
        tokenizers: source and target tokenizer.
    """
    if not (tokenizers.src.has_placeholders and tokenizers.tgt.has_placeholders):
        return None
    src = tokenizers.src.with_spans(part.protected).decode(part.ids)
    tgt = tokenizers.tgt.with_spans(part.protected).decode(hypothesis.ids)
    names = find_lost_names(src, tgt, tokenizers.src)
    protected = (*part.protected, *names)
    if not names or "" in part.protected or len(protected) > len(PLACEHOLDERS):
        return None
    text = tokenizers.src.decode(part.ids)
    for name, mark in zip(names, PLACEHOLDERS[len(part.protected) :], strict=False):
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", mark, text)
    return part._replace(ids=tokenizers.src.encode(text), protected=protected)


def restore_lost_names(
    parts: Sequence[Part],
    best: Sequence[Hypothesis],
    search: Callable[[Sequence[Sequence[int]]], Search],
    tokenizers: Tokenizers,
    score: Callable[[IdPairs], list[Hypothesis]],
) -> Generator[list[int], None, list[Hypothesis]]:
    """Translate parts whose translations lost names again, and keep what the model is surer of.

    Args:
        parts: the parts of the source.
        best: the translation of each.
        search: decodes source ids.
        tokenizers: source and target tokenizer.
        score: scores candidates, see `hubnmt.pipeline.protection.rescore`.

    Yields:
        the steps of the search.

    Returns:
        the translation of each part.
    """
    found = list(best)
    named = {
        number: protected
        for number, (part, hypothesis) in enumerate(zip(parts, best, strict=True))
        if (protected := protect_lost_names(part, hypothesis, tokenizers))
    }
    if not named:
        return found
    again = yield from search([part.ids for part in named.values()])
    for (number, named_part), (second, *_) in zip(named.items(), again, strict=True):
        part, first = parts[number], best[number]
        if keeps_spans(named_part, second.ids, tokenizers) and _is_surer(second, first):
            text = tokenizers.tgt.with_spans(named_part.protected).decode(second.ids)
            ids = tokenizers.tgt.with_spans(part.protected).encode(text)
            (found[number],) = score([(part.ids, ids)])
    return found


def _is_surer(second: Hypothesis, first: Hypothesis) -> bool:
    """Return whether placeholders gain enough: they are surer than a correct translation, too."""
    probabilities = [mean_probability(each.token_log_probs) for each in (second, first)]
    return probabilities[0] > probabilities[1] + MIN_GAIN

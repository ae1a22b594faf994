"""Translate a text with two models or decoding configurations and compare the results."""

import dataclasses
import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hubnmt.errors import InputError
from hubnmt.text.languages import language_name
from hubnmt.types import PairScore
from hubnmt.ui.services import decoding_controls, limits
from hubnmt.ui.services.translate import Handlers, Timed

MAX_WORDS = 16_000
"""Maximum number of tokens (words, punctuation, whitespace) for which a diff is computed."""

WORDS = re.compile(r"\s+|[.,;:!?…।]+|[^\s.,;:!?…।]+")
"""Whitespace, sentence punctuation, and runs of anything else; matches cover the whole text. `\\w`
is not used, because Python's excludes the vowel signs of many scripts."""


class Span(NamedTuple):
    """A substring of a text."""

    text: str
    is_different: bool
    """Whether it occurs in this text only."""


Place = tuple[int, int]
"""A word boundary: an index into the words of the first text and of the second."""


def mark_differences(first: str, second: str) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Compute a word-level diff of two texts.

    Nothing is marked if either text has more than `MAX_WORDS`.
    """
    words = WORDS.findall(first), WORDS.findall(second)
    if max(map(len, words)) > MAX_WORDS:
        return (Span(first, False),), (Span(second, False),)
    spans: tuple[list[Span], list[Span]] = ([], [])
    end = len(words[0]), len(words[1])
    previous: Place = (0, 0)
    for start, stop in [*_shared(*words), (end, end)]:
        for side in (0, 1):
            for a, b, is_different in (
                (previous[side], start[side], True),
                (start[side], stop[side], False),
            ):
                if a < b:
                    spans[side].append(Span("".join(words[side][a:b]), is_different))
        previous = stop
    return tuple(spans[0]), tuple(spans[1])


def _shared(first: Sequence[str], second: Sequence[str]) -> Iterator[tuple[Place, Place]]:
    """Yield the start and end of each common run of words, in order."""
    pairs = _match(first, second)
    starts = [n for n, (i, j) in enumerate(pairs) if n == 0 or pairs[n - 1] != (i - 1, j - 1)]
    for start, stop in itertools.pairwise([*starts, len(pairs)]):
        last = pairs[stop - 1]
        yield pairs[start], (last[0] + 1, last[1] + 1)


def _match(first: Sequence[str], second: Sequence[str]) -> list[Place]:
    """Return the index pairs of a longest common subsequence, by the bit-parallel algorithm.

    `rows[j]` describes the first j words of `second`: bit i is 0 where the length of the longest
    common subsequence increases from `first[:i]` to `first[:i + 1]`.
    """
    places: dict[str, int] = defaultdict(int)
    for i, word in enumerate(first):
        places[word] |= 1 << i
    whole = (1 << len(first)) - 1
    rows = [whole]
    for word in second:
        row = rows[-1]
        common = row & places.get(word, 0)
        rows.append((row + common | row - common) & whole)
    pairs: list[Place] = []
    i, j = len(first), len(second)
    while i and j:
        if first[i - 1] == second[j - 1]:  # always optimal, and keeps runs contiguous
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif rows[j] >> i - 1 & 1:
            i -= 1
        else:
            j -= 1
    return pairs[::-1]


N_OPTIONS = len(decoding_controls.NAMES)


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """One of the two translations."""

    model: str
    timed: Timed
    spans: tuple[Span, ...]
    """The translation, split at the differences from the other."""
    scores: tuple[PairScore | None, PairScore | None]
    """Scores of this translation under the first and the second model; None if it is empty or too
    long."""


def compare(
    handlers: Handlers, text: str, models: Sequence[str], options: Sequence[Mapping[str, Any]]
) -> tuple[Side, Side]:
    """Translate a text in two ways and score each translation under both models.

    Args:
        handlers: the page's handlers.
        text: source text.
        models: two model references; empty selects the page's default model.
        options: for each model, fields of `DecodingConfig` that override its defaults.

    Raises:
        HubNMTError: if a text, a model or an option is invalid.
    """
    limits.check_text(text)
    names = [handlers.registry.name(model) for model in models]
    _check_pairs(handlers, names)
    timed = [
        handlers.translate_text(text, model, **overrides)
        for model, overrides in zip(names, options, strict=True)
    ]
    texts = [each.translation.text for each in timed]
    spans = mark_differences(*texts)
    scores = [tuple(_score(handlers, model, text, tgt) for model in names) for tgt in texts]
    first, second = (
        Side(name, each, cut, (under[0], under[1]))
        for name, each, cut, under in zip(names, timed, spans, scores, strict=True)
    )
    return first, second


def _check_pairs(handlers: Handlers, names: Sequence[str]) -> None:
    """Check that two models translate the same language pair.

    Raises:
        InputError: naming both language pairs.
    """
    configs = [handlers.registry.get(name).config for name in names]
    pairs = [
        f"{language_name(each.src_lang)} to {language_name(each.tgt_lang)}" for each in configs
    ]
    if pairs[0] != pairs[1]:
        raise InputError(
            f"A translates {pairs[0]} and B {pairs[1]}: choose models of the same language pair"
        )


def _score(handlers: Handlers, model: str, src: str, tgt: str) -> PairScore | None:
    try:
        return limits.score(handlers.registry.get(model), src, tgt)
    except InputError:
        return None


def read_sides(values: Sequence[Any]) -> tuple[list[str], list[dict[str, Any]]]:
    """Parse the values of both panels: a model each, then its controls in the order of `NAMES`."""
    size = 1 + N_OPTIONS
    panels = [values[:size], values[size:]]
    return [panel[0] for panel in panels], [
        decoding_controls.read_options(panel[1:]) for panel in panels
    ]

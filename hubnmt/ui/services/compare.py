"""Two translations of one text beside each other, as functions that need no server.

Takes a text and for each side a model and options, gives both translations, where they differ, and
how probable each model finds either. A request that cannot be met raises `HubNMTError`. Must not
know Gradio or HTML.
"""

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
"""Words, marks and spaces of a text whose differences are looked for: more than 10,000 characters
of the shortest answers make. Of a longer text nothing is marked."""

WORDS = re.compile(r"\s+|[.,;:!?…।]+|[^\s.,;:!?…।]+")
"""White space, sentence marks and everything between: together all of a text. No word class is
used, because Python's leaves out the vowel signs of many scripts."""


class Span(NamedTuple):
    """A stretch of a text."""

    text: str
    is_different: bool
    """It stands in this text only."""


Place = tuple[int, int]
"""A border between words, in the first text and in the second."""


def mark_differences(first: str, second: str) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Cut two texts, by words, into what they share and what stands in one of them only.

    Nothing is marked where one has more than `MAX_WORDS`.
    """
    words = WORDS.findall(first), WORDS.findall(second)
    if max(map(len, words)) > MAX_WORDS:
        return (Span(first, False),), (Span(second, False),)
    spans: tuple[list[Span], list[Span]] = ([], [])
    end = len(words[0]), len(words[1])
    behind: Place = (0, 0)
    for start, stop in [*_shared(*words), (end, end)]:
        for side in (0, 1):
            for a, b, is_different in (
                (behind[side], start[side], True),
                (start[side], stop[side], False),
            ):
                if a < b:
                    spans[side].append(Span("".join(words[side][a:b]), is_different))
        behind = stop
    return tuple(spans[0]), tuple(spans[1])


def _shared(first: Sequence[str], second: Sequence[str]) -> Iterator[tuple[Place, Place]]:
    """Find the stretches that both say, in order: where each begins, and where it ends."""
    pairs = _match(first, second)
    starts = [n for n, (i, j) in enumerate(pairs) if n == 0 or pairs[n - 1] != (i - 1, j - 1)]
    for start, stop in itertools.pairwise([*starts, len(pairs)]):
        last = pairs[stop - 1]
        yield pairs[start], (last[0] + 1, last[1] + 1)


def _match(first: Sequence[str], second: Sequence[str]) -> list[Place]:
    """Pair as many words of one text as possible with the same words of the other, in order.

    A row tells by the bits that are 0 behind which words of the first text the longest common
    subsequence with the second, as far as it is read, grows by one.
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
        if first[i - 1] == second[j - 1]:  # never wrong, and keeps to stretches in one piece
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
    """One of the two."""

    model: str
    timed: Timed
    spans: tuple[Span, ...]
    """The translation, cut where it differs from the other."""
    scores: tuple[PairScore | None, PairScore | None]
    """This translation as the first and as the second model finds it; None for what is too long, or
    nothing at all."""


def compare(
    handlers: Handlers, text: str, models: Sequence[str], options: Sequence[Mapping[str, Any]]
) -> tuple[Side, Side]:
    """Translate a text in two ways and measure each under the other.

    Args:
        handlers: of the page.
        text: what to translate.
        models: two names; empty is the one the page opened with.
        options: for each of them, fields of `DecodingConfig` that differ from its defaults.

    Raises:
        HubNMTError: if a text, a model or an option is refused.
    """
    limits.check_text(text)
    names = [handlers.registry.name(model) for model in models]
    _check_pairs(handlers, names)
    timed = [
        handlers.translate_text(text, model, **said)
        for model, said in zip(names, options, strict=True)
    ]
    texts = [each.translation.text for each in timed]
    spans = mark_differences(*texts)
    scores = [tuple(_score(handlers, model, text, said) for model in names) for said in texts]
    first, second = (
        Side(name, each, cut, (under[0], under[1]))
        for name, each, cut, under in zip(names, timed, spans, scores, strict=True)
    )
    return first, second


def _check_pairs(handlers: Handlers, names: Sequence[str]) -> None:
    """Refuse two models that translate between different languages.

    Raises:
        InputError: naming both pairs.
    """
    configs = [handlers.registry.get(name).config for name in names]
    pairs = [
        f"{language_name(each.src_lang)} to {language_name(each.tgt_lang)}" for each in configs
    ]
    if pairs[0] != pairs[1]:
        raise InputError(
            f"A translates {pairs[0]} and B {pairs[1]}: choose two models of the same pair"
        )


def _score(handlers: Handlers, model: str, src: str, tgt: str) -> PairScore | None:
    try:
        return limits.score(handlers.registry.get(model), src, tgt)
    except InputError:
        return None


def read_sides(values: Sequence[Any]) -> tuple[list[str], list[dict[str, Any]]]:
    """Read what two panels say: for each a model, then its controls in their order."""
    size = 1 + N_OPTIONS
    panels = [values[:size], values[size:]]
    return [panel[0] for panel in panels], [
        decoding_controls.read_options(panel[1:]) for panel in panels
    ]

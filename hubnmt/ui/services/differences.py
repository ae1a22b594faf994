"""Where two texts differ, by words.

Takes two texts, gives both cut into what they share and what stands in one of them only. Must not
know translations or HTML. What they share is a longest common subsequence, by whole rows of bits
(Hyyrö 2004, "Bit-parallel LCS-length computation revisited"): two texts that say "Ja" and "Nein" a
thousand times take milliseconds, where `difflib` takes minutes.
"""

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

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

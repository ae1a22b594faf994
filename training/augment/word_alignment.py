"""Which word of a translation stands for which word of its source, learned from pairs alone.

Takes tokenised sentence pairs, gives links. Must not know models or recipes. Two word translation
tables, one for each direction, are learned by expectation-maximisation with a preference for the
diagonal, and only links that both directions agree on count: few, and reliable. Sources: Brown et
al. 1993 (model 1), https://aclanthology.org/J93-2003; Dyer et al. 2013 (the diagonal),
https://aclanthology.org/N13-1073; Och and Ney 2003 (agreement), https://aclanthology.org/J03-1002.
"""

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final

ROUNDS: Final = 6
"""Of expectation-maximisation; a table of this size has settled by then."""
PASSES: Final = 2 * (ROUNDS + 1)
"""How often `align` goes through the pairs: in each direction, and once more to look up."""
DIAGONAL: Final = 4.0
"""How fast the prior falls with the distance from the diagonal, as in fast_align."""
NULL_SHARE: Final = 0.08
"""Prior of a word that translates nothing."""
FORGOTTEN: Final = 1e-6
"""Probability that is taken for none, so that what cannot be is passed over in later rounds."""
NOTHING: Final = ""
"""Stands for no word at all where a source word is asked for."""

Words = Sequence[str]
Link = tuple[int, int]
"""(target word, source word), counted from 0."""
_Table = Mapping[str, Mapping[str, float]]


def align(
    sources: Sequence[Words],
    targets: Sequence[Words],
    *,
    tell: Callable[[], object] = lambda: None,
) -> list[set[Link]]:
    """Link the words of sentence pairs, where both directions agree: each word once at most.

    Args:
        sources: words of each source.
        targets: of its translation.
        tell: called `PASSES` times for each pair, to show how far it is.
    """
    forward = _most_probable(sources, targets, tell)
    backward = _most_probable(targets, sources, tell)
    return [
        {(t, s) for t, s in one.items() if other.get(s) == t}
        for one, other in zip(forward, backward, strict=True)
    ]


def _most_probable(
    givens: Sequence[Words], saids: Sequence[Words], tell: Callable[[], object]
) -> list[dict[int, int]]:
    """For each word said find the given word it most probably translates; none for no word."""
    table: _Table | None = None  # all alike, before anything is known
    for _ in range(ROUNDS):
        counts: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for given, said in zip(givens, saids, strict=True):
            rows = [counts[other] for other in (NOTHING, *given)]
            for place, word in enumerate(said):
                for row, share in zip(rows, _share_out(table, given, said, place), strict=True):
                    if share:
                        row[word] += share
            tell()
        table = {given: _to_probabilities(row) for given, row in counts.items()}
    found = []
    for given, said in zip(givens, saids, strict=True):
        links = {}
        for place in range(len(said)):
            shares = _share_out(table, given, said, place)
            best = max(range(len(shares)), key=shares.__getitem__)
            if best:
                links[place] = best - 1
        found.append(links)
        tell()
    return found


def _to_probabilities(counts: Mapping[str, float]) -> dict[str, float]:
    total = sum(counts.values())
    least = FORGOTTEN * total
    return {word: count / total for word, count in counts.items() if count > least}


def _share_out(table: _Table | None, given: Words, said: Words, place: int) -> list[float]:
    """Share a word out among no word at all and the given ones."""
    weights = _prior(len(given), len(said), place)
    if table is not None:
        word = said[place]
        weights = [
            weight * table[other].get(word, 0.0)
            for weight, other in zip(weights, (NOTHING, *given), strict=True)
        ]
    total = sum(weights)
    return [weight / total for weight in weights] if total else [1.0, *([0.0] * len(given))]


@functools.lru_cache(maxsize=1 << 16)
def _prior(n_given: int, n_generated: int, place: int) -> list[float]:
    """How likely a place translates nothing, and each given place, before the words are known."""
    distances = [abs((n + 0.5) / n_given - (place + 0.5) / n_generated) for n in range(n_given)]
    weights = [math.exp(-DIAGONAL * distance) for distance in distances]
    scale = (1 - NULL_SHARE) / max(sum(weights), 1e-9)
    return [NULL_SHARE, *(scale * weight for weight in weights)]

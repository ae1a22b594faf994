"""Statistical word alignment of sentence pairs.

IBM model 1 with a diagonal prior is trained by expectation-maximisation in both directions; only
links that both directions agree on are kept, which favours precision over recall. Sources: Brown et
al. 1993 (model 1), https://aclanthology.org/J93-2003; Dyer et al. 2013 (diagonal prior),
https://aclanthology.org/N13-1073; Och and Ney 2003 (intersection),
https://aclanthology.org/J03-1002.
"""

import functools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from tqdm import trange

ROUNDS: Final = 6
"""Iterations of expectation-maximisation, enough to converge on corpora of this size."""
DIAGONAL: Final = 4.0
"""Precision of the diagonal prior, as in fast_align."""
NULL_PRIOR: Final = 0.08
"""Prior probability of a link to the null word."""
MIN_PROBABILITY: Final = 1e-6
"""Translation probabilities below this are pruned, which saves time in later iterations."""
NULL_WORD: Final = ""

Words = Sequence[str]
Link = tuple[int, int]
"""(target word, source word), counted from 0."""
_Table = Mapping[str, Mapping[str, float]]


def align(sources: Sequence[Words], targets: Sequence[Words]) -> list[set[Link]]:
    """Return the word links that both directions agree on, at most one per word."""
    forward = _most_probable(sources, targets)
    backward = _most_probable(targets, sources)
    return [
        {(t, s) for t, s in one.items() if other.get(s) == t}
        for one, other in zip(forward, backward, strict=True)
    ]


def _most_probable(sources: Sequence[Words], targets: Sequence[Words]) -> list[dict[int, int]]:
    """Map each target position to its most probable source position; null links are omitted."""
    table: _Table | None = None  # uniform in the first iteration
    for _ in trange(ROUNDS, desc="aligning words", leave=False, disable=None):
        counts: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for source, target in zip(sources, targets, strict=True):
            rows = [counts[other] for other in (NULL_WORD, *source)]
            for place, word in enumerate(target):
                for row, share in zip(rows, _posterior(table, source, target, place), strict=True):
                    if share:
                        row[word] += share
        table = {source: _to_probabilities(row) for source, row in counts.items()}
    found = []
    for source, target in zip(sources, targets, strict=True):
        links = {}
        for place in range(len(target)):
            shares = _posterior(table, source, target, place)
            best = max(range(len(shares)), key=shares.__getitem__)
            if best:
                links[place] = best - 1
        found.append(links)
    return found


def _to_probabilities(counts: Mapping[str, float]) -> dict[str, float]:
    total = sum(counts.values())
    least = MIN_PROBABILITY * total
    return {word: count / total for word, count in counts.items() if count > least}


def _posterior(table: _Table | None, source: Words, target: Words, place: int) -> list[float]:
    """Return the posterior over the null word and the source words."""
    weights = _prior(len(source), len(target), place)
    if table is not None:
        word = target[place]
        weights = [
            weight * table[other].get(word, 0.0)
            for weight, other in zip(weights, (NULL_WORD, *source), strict=True)
        ]
    total = sum(weights)
    return [weight / total for weight in weights] if total else [1.0, *([0.0] * len(source))]


@functools.lru_cache(maxsize=1 << 16)
def _prior(n_source: int, n_target: int, place: int) -> list[float]:
    """Return the prior over the null word and the source positions."""
    distances = [abs((n + 0.5) / n_source - (place + 0.5) / n_target) for n in range(n_source)]
    weights = [math.exp(-DIAGONAL * distance) for distance in distances]
    scale = (1 - NULL_PRIOR) / max(sum(weights), 1e-9)
    return [NULL_PRIOR, *(scale * weight for weight in weights)]

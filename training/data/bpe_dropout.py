"""BPE-dropout: random skipping of merges when a text is segmented.

The `tokenizers` library implements it too, but with a generator that cannot be seeded, so a run
could not be reproduced or resumed.

Source: Provilkov et al. 2020, https://arxiv.org/abs/1910.13267, algorithm 1.
"""

import functools
import itertools
import random
from collections.abc import Sequence

from hubnmt.text.tokenizer import Tokenizer

CACHE_SIZE = 2**16
"""Size of the cache of possible merges; common words have few states."""

State = tuple[int, ...]
"""Ids of a partly merged word."""


class BpeDropout:
    """Re-segments the ids of one tokenizer."""

    def __init__(self, tokenizer: Tokenizer, rate: float) -> None:
        """Load the merges."""
        self._tokenizer = tokenizer
        self._rate = rate
        self._byte_ids = tokenizer.byte_ids()
        self._merges = tokenizer.merges()
        self._list_next = functools.lru_cache(CACHE_SIZE)(self._find_next)

    def __call__(self, ids: Sequence[int], rng: random.Random) -> list[int]:
        """Return other ids of the same text."""
        text = self._tokenizer.decode(ids)
        split: list[int] = []
        for word in self._tokenizer.pre_tokens(text):
            split += self._split(tuple(self._byte_ids[byte] for byte in word.encode()), rng)
        return split

    def _split(self, state: State, rng: random.Random) -> State:
        """Merge the bytes of a word; at each step each possible merge is skipped at random.

        Merges are tried in order of rank, and the first one not skipped is applied, so no more
        random numbers are drawn than necessary.
        """
        while True:
            for following in self._list_next(state):
                if rng.random() >= self._rate:
                    state = following
                    break
            else:
                return state

    def _find_next(self, state: State) -> list[State]:
        """Return the states reachable by one merge, lowest rank first."""
        found = sorted(
            (*merge, place)
            for place, pair in enumerate(itertools.pairwise(state))
            if (merge := self._merges.get(pair)) is not None
        )
        return [(*state[:place], whole, *state[place + 2 :]) for _, whole, place in found]

"""Ids of a text split otherwise: some merges are skipped at random.

Takes ids and a seeded generator, gives other ids of the same bytes. Must not know text files or
batches. The `tokenizers` library can do this too, but draws from a generator that nobody can seed,
so a run could not be repeated or resumed.

Source: Provilkov et al. 2020, https://arxiv.org/abs/1910.13267, algorithm 1.
"""

import functools
import itertools
import random
from collections.abc import Sequence

from hubnmt.text.tokenizer import Tokenizer

N_REMEMBERED = 2**16
"""States of words whose possible merges are remembered: common words pass through few."""

State = tuple[int, ...]
"""Ids of a word that is partly merged."""


class BpeDropout:
    """Splits the ids of one tokenizer anew."""

    def __init__(self, tokenizer: Tokenizer, rate: float) -> None:
        """Tabulate the merges.

        Args:
            tokenizer: whose ids come in and go out.
            rate: chance of each merge to be skipped, each time it could be applied.
        """
        self._tokenizer = tokenizer
        self._rate = rate
        self._byte_ids = tokenizer.byte_ids()
        self._merges = tokenizer.merges()
        self._list_next = functools.lru_cache(N_REMEMBERED)(self._find_next)

    def __call__(self, ids: Sequence[int], rng: random.Random) -> list[int]:
        """Return ids that spell the same bytes."""
        text = self._tokenizer.decode(ids)
        split: list[int] = []
        for word in self._tokenizer.pre_tokens(text):
            split += self._split(tuple(self._byte_ids[byte] for byte in word.encode()), rng)
        return split

    def _split(self, state: State, rng: random.Random) -> State:
        """Merge the bytes of a word; at each step each possible merge is skipped by chance.

        The best of those not skipped is the first not skipped in order of rank, so no more are
        drawn than need be.
        """
        while True:
            for following in self._list_next(state):
                if rng.random() >= self._rate:
                    state = following
                    break
            else:
                return state

    def _find_next(self, state: State) -> list[State]:
        """List what one merge makes of a word, the merge of lowest rank first."""
        found = sorted(
            (*merge, place)
            for place, pair in enumerate(itertools.pairwise(state))
            if (merge := self._merges.get(pair)) is not None
        )
        return [(*state[:place], whole, *state[place + 2 :]) for _, whole, place in found]

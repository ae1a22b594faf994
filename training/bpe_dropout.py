"""Ids of a text split otherwise: some merges are skipped at random.

Takes ids and a seeded generator, gives other ids of the same bytes. Must not know text files or
batches. The `tokenizers` library can do this too, but draws from a generator that nobody can seed,
so a run could not be repeated or resumed.

Source: Provilkov et al. 2020, https://arxiv.org/abs/1910.13267, algorithm 1.
"""

import itertools
import random
from collections.abc import Sequence

from hubnmt.tokenizer import Tokenizer


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

    def __call__(self, ids: Sequence[int], rng: random.Random) -> list[int]:
        """Return ids that spell the same bytes."""
        text = self._tokenizer.decode(ids)
        split: list[int] = []
        for word in self._tokenizer.pre_tokens(text):
            split += self._split([self._byte_ids[byte] for byte in word.encode()], rng)
        return split

    def _split(self, parts: list[int], rng: random.Random) -> list[int]:
        """Merge the bytes of a word; at each step each possible merge is skipped by chance."""
        merges, rate = self._merges, self._rate
        while len(parts) > 1:
            found = [
                (*merge, place)
                for place, pair in enumerate(itertools.pairwise(parts))
                if (merge := merges.get(pair)) is not None and rng.random() >= rate
            ]
            if not found:
                break
            _, merged, place = min(found)
            parts[place : place + 2] = [merged]
        return parts

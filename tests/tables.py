"""A model that is a table: what comes next depends on what was said, and nothing else.

Searches run over it as over a Transformer, but here every probability is known, so that the best
translation can be found by trying all of them. Everything below is plain Python lists.
"""

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hubnmt.decoding.beam import beam_search
from hubnmt.decoding.sampling import generate, random_choice
from hubnmt.decoding.search import Search, Step

BOS, EOS, V = 7, 2, 4
Prefix = tuple[int, ...]
Table = Callable[[Prefix], Sequence[float]]
"""What was said (without bos) to the log-probabilities of the V next tokens."""


class TableStep:
    """A `Step` over one table per sentence; it remembers how much it was asked."""

    def __init__(self, tables: Sequence[Table], max_steps: int = 99) -> None:
        self._tables = list(tables)
        self._prefixes: list[list[Prefix]] = [[()] for _ in tables]
        self._max_steps = max_steps
        self.shapes: list[tuple[int, ...]] = []
        """(sentences, hypotheses) of each call."""

    def __call__(self, last_ids: Tensor) -> Tensor:
        n_calls = len(self.shapes)
        assert n_calls < self._max_steps, "this search has no end"
        self.shapes.append(tuple(last_ids.shape))
        is_first = n_calls == 0
        rows = []
        for table, prefixes, last in zip(
            self._tables, self._prefixes, last_ids.tolist(), strict=True
        ):
            assert not is_first or last == [BOS]
            for w, token in enumerate(last):
                prefixes[w] = () if is_first else (*prefixes[w], token)
            rows.append([list(table(prefix)) for prefix in prefixes])
        return torch.tensor(rows)  # (B, W, V)

    def reorder(self, parents: Tensor) -> None:
        self._prefixes = [
            [prefixes[parent] for parent in chosen]
            for prefixes, chosen in zip(self._prefixes, parents.tolist(), strict=True)
        ]

    def keep(self, rows: Tensor) -> None:
        self._tables = [self._tables[row] for row in rows.tolist()]
        self._prefixes = [list(self._prefixes[row]) for row in rows.tolist()]


class Found(NamedTuple):
    """What the slow searches give; the same fields as a `Hypothesis`."""

    ids: list[int]
    log_prob: float
    score: float


def random_table(seed: int, *, eos_bonus: float = 0.0) -> Table:
    """Seeded logits for every prefix.

    Args:
        seed: another one is another sentence.
        eos_bonus: above 0 makes sentences end sooner.
    """

    def look_up(prefix: Prefix) -> list[float]:
        rng = random.Random(f"{seed} {prefix}")
        logits = [rng.gauss(0, 2) + eos_bonus * (token == EOS) for token in range(V)]
        return torch.tensor(logits).log_softmax(0).tolist()

    return look_up


def search_exhaustively(table: Table, max_tgt_tokens: int, length_penalty: float) -> list[Found]:
    """Score every target there is, best first."""
    found = []
    words = [token for token in range(V) if token != EOS]
    for n_tokens in range(max_tgt_tokens + 1):
        for ids in itertools.product(words, repeat=n_tokens):
            path = (*ids, EOS)
            log_prob = sum(table(path[:t])[token] for t, token in enumerate(path))
            if log_prob > -torch.inf:
                found.append(Found(list(ids), log_prob, log_prob / len(path) ** length_penalty))
    return sorted(found, key=lambda each: -each.score)


def search_slowly(
    table: Table, *, max_tgt_tokens: int, beam_size: int, length_penalty: float
) -> list[Found]:
    """Beam search over lists; it stops only when W targets have ended or nothing lives."""
    live: list[tuple[Prefix, float]] = [((), 0.0)]
    ended: list[Found] = []
    while live and len(ended) < beam_size:
        grown = []
        for prefix, log_prob in live:
            for token, more in enumerate(table(prefix)):
                is_free = len(prefix) < max_tgt_tokens or token == EOS
                if is_free and more > -torch.inf:
                    grown.append(((*prefix, token), log_prob + more))
        grown.sort(key=lambda each: -each[1])
        for path, log_prob in grown[:beam_size]:
            if path[-1] == EOS:
                score = log_prob / len(path) ** length_penalty
                ended.append(Found(list(path[:-1]), log_prob, score))
        live = [each for each in grown if each[0][-1] != EOS][:beam_size]
    return sorted(ended, key=lambda each: -each.score)[:beam_size]


def start_greedy(
    step: Step, caps: Sequence[int], seeds: Sequence[int], *, bos_id: int = BOS, **options: Any
) -> Search:
    limits = torch.tensor(caps, dtype=torch.int64)
    return generate(step, bos_id=bos_id, eos_id=EOS, max_tgt_tokens=limits, **options)


def start_beam(
    step: Step, caps: Sequence[int], seeds: Sequence[int], *, bos_id: int = BOS, **options: Any
) -> Search:
    limits = torch.tensor(caps, dtype=torch.int64)
    options |= {"max_tgt_tokens": limits, "beam_size": 3, "n_best": 3}
    return beam_search(step, bos_id=bos_id, eos_id=EOS, **options)


def start_sampling(
    step: Step, caps: Sequence[int], seeds: Sequence[int], *, bos_id: int = BOS, **options: Any
) -> Search:
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    options |= {"choose": random_choice(generators, n_samples=3, temperature=2.0)}
    return start_greedy(step, caps, seeds, bos_id=bos_id, **options)


SEARCHES = [start_greedy, start_beam, start_sampling]

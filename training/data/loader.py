"""Deterministic, resumable batches of training data for each process, with BPE-dropout.

The next batches depend only on the seed, the position and the number of batches in a step, so a
resumed run continues where it stopped.
"""

import functools
import itertools
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hubnmt.errors import ConfigError
from hubnmt.text.tokenizer import Tokenizer
from training.config.recipe import Recipe
from training.data.batching import (
    Batch,
    Pair,
    Plan,
    collate,
    collate_rows,
    draw_rows,
    mix_seed,
    plan_epoch,
)
from training.data.prepare import RunData
from training.distributed import ProcessGroup

CACHE_SIZE = 2**16
"""Size of the cache of possible merges; common words have few states."""

State = tuple[int, ...]
"""Ids of a partly merged word."""


class Position(NamedTuple):
    """Position in the training data."""

    epoch: int = 0
    """Current pass over the data, counted from 0."""
    batch: int = 0
    """Completed batches of this epoch, over all processes."""


class StepBatches(NamedTuple):
    """Batches of one process for one step."""

    batches: list[Batch]
    after: Position
    """Position after all processes have completed theirs."""


class Loader:
    """Endless batches of one process of a group.

    All processes compute the same plan and take every n-th batch of it. With n times as many
    processes and `accumulate` divided by n, each optimizer step uses the same batches.
    """

    def __init__(self, recipe: Recipe, run_data: RunData, group: ProcessGroup) -> None:
        """Start at the first batch."""
        self._run_data = run_data
        self._group = group
        self._settings = recipe.optimizer
        self._seed = recipe.run.seed
        self._batches_per_step = group.size * recipe.optimizer.accumulate
        self._corpus_weights = [source.weight for source in recipe.data.training_corpora().values()]
        rate, sides = recipe.data.bpe_dropout, recipe.data.bpe_dropout_sides
        self._max_tokens = recipe.data.max_tokens
        self._bpe_dropouts = [
            BpeDropout(tokenizer, rate) if rate and sides in ("both", side) else None
            for side, tokenizer in zip(("src", "tgt"), run_data.tokenizers, strict=True)
        ]
        self.seek(Position())

    def seek(self, position: Position) -> None:
        """Continue from the position of a `StepBatches`."""
        self._batches = self._read(position)

    def take(self, n: int) -> StepBatches:
        """Return the next `n` batches; all processes must take the same number."""
        taken = [next(self._batches) for _ in range(n)]
        return StepBatches([batch for batch, _ in taken], taken[-1][1])

    def _read(self, position: Position) -> Iterator[tuple[Batch, Position]]:
        epoch, size = position.epoch, self._group.size
        done = position.batch // size
        while True:
            for batch in self.epoch(epoch, skip=done):
                done += 1
                yield batch.to(self._group.device), Position(epoch, done * size)
            epoch, done = epoch + 1, 0

    def epoch(self, epoch: int, *, skip: int = 0) -> Iterator[Batch]:
        """Yield this process's batches of an epoch, on the CPU, without the first `skip`."""
        run_data, plan = self._run_data, self.plan(epoch)
        first = self._group.rank + skip * self._group.size
        for number in range(first, len(plan), self._group.size):
            rows = plan[number]
            if any(self._bpe_dropouts):
                rng = random.Random(mix_seed(self._seed, epoch, 2, number))
                pairs = [self._resegment(run_data.train[row], rng) for row in rows.tolist()]
                yield collate(pairs, run_data.tokenizers)
            else:
                yield collate_rows(*run_data.train.gather(rows), run_data.tokenizers)

    def plan(self, epoch: int) -> Plan:
        """Plan an epoch for all processes; the first epoch begins with the largest batches."""
        rows = draw_rows(
            self._run_data.train.counts, self._corpus_weights, seed=mix_seed(self._seed, epoch, 0)
        )
        plan = plan_epoch(
            self._run_data.train.lengths[rows],
            batch_tokens=self._settings.batch_tokens,
            seed=mix_seed(self._seed, epoch, 1),
            batches_per_step=self._batches_per_step,
            is_largest_first=epoch == 0,
        )
        if not len(plan) or len(plan) % self._group.size:
            raise ConfigError(
                f"an epoch of {len(rows)} pairs is too small for {self._batches_per_step} batches "
                "per step; lower optimizer.accumulate, raise the weights, or start fewer processes"
            )
        return [rows[batch] for batch in plan]

    def _resegment(self, pair: Pair, rng: random.Random) -> Pair:
        """Apply BPE-dropout to a pair; a side that would become too long is left unchanged."""
        sides: list[Sequence[int]] = []
        for ids, bpe_dropout in zip(pair, self._bpe_dropouts, strict=True):
            split = ids if bpe_dropout is None else bpe_dropout(ids, rng)
            sides.append(split if len(split) <= self._max_tokens else ids)
        return sides[0], sides[1]


class BpeDropout:
    """Re-segments the ids of one tokenizer (Provilkov et al. 2020)."""

    def __init__(self, tokenizer: Tokenizer, rate: float) -> None:
        """Load the merges."""
        self._tokenizer = tokenizer
        self._rate = rate
        self._byte_ids = tokenizer.byte_ids()
        self._merges = tokenizer.merges
        self._list_next = functools.lru_cache(CACHE_SIZE)(self._find_next)

    def __call__(self, ids: Sequence[int], rng: random.Random) -> list[int]:
        """Return other ids of the same text."""
        text = self._tokenizer.decode(ids)
        split: list[int] = []
        for word in self._tokenizer.pre_tokens(text):
            split += self._split(tuple(self._byte_ids[byte] for byte in word.encode()), rng)
        return split

    def _split(self, state: State, rng: random.Random) -> State:
        """Merge the bytes of a word; the first merge, by rank, that is not skipped is applied."""
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

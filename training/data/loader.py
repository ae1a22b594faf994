"""The endless row of batches that a run eats, step by step.

Takes a `BatchStream` and a position, gives this process's share of the next step. Must not know the
model. What comes next follows from the seed and the position alone, so a run that is resumed, with
as many processes or others, reads on where it stopped.
"""

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hubnmt.errors import ConfigError
from training.config.recipe import RunConfig
from training.data.batching import (
    Batch,
    Pair,
    Plan,
    collate,
    collate_ragged,
    draw_rows,
    mix_seed,
    plan_epoch,
)
from training.data.bpe_dropout import BpeDropout
from training.data.prepare import Corpus
from training.distributed import Team


class BatchStream:
    """Batches of one process out of `world_size`.

    All processes make the same plan and take every `world_size`-th batch of it, so each gets as
    many as the others and none gets a pair of another. With n times as many processes and an nth of
    `accumulate`, each optimizer step learns from the same batches.
    """

    def __init__(
        self, config: RunConfig, corpus: Corpus, *, rank: int = 0, world_size: int = 1
    ) -> None:
        """Look up the settings.

        Args:
            config: the recipe.
            corpus: what to learn from.
            rank: number of this process.
            world_size: number of processes.
        """
        self._corpus = corpus
        self._settings = config.optimizer
        self._seed = config.run.seed
        self._rank, self._world_size = rank, world_size
        self._n_together = world_size * config.optimizer.accumulate
        self._weights = [each.weight for each in config.data.training_corpora().values()]
        rate, sides = config.data.bpe_dropout, config.data.bpe_dropout_sides
        self._max_tokens = config.data.max_tokens
        self._droppers = [
            BpeDropout(tokenizer, rate) if rate and sides in ("both", side) else None
            for side, tokenizer in (("src", corpus.src_tokenizer), ("tgt", corpus.tgt_tokenizer))
        ]

    def plan(self, epoch: int) -> Plan:
        """Plan an epoch for all processes; the first begins with the largest batches.

        Lengths are those without `bpe_dropout`: what it makes of a pair is known when its batch is
        made, so a batch may then be larger than planned, and another the largest.

        Raises:
            ConfigError: if there are too few pairs for each process to get one.
        """
        rows = draw_rows(
            self._corpus.train.counts, self._weights, seed=mix_seed(self._seed, epoch, 0)
        )
        plan = plan_epoch(
            self._corpus.train.lengths[rows],
            batch_tokens=self._settings.batch_tokens,
            seed=mix_seed(self._seed, epoch, 1),
            n_together=self._n_together,
            is_largest_first=epoch == 0,
        )
        if not len(plan) or len(plan) % self._world_size:
            raise ConfigError(
                f"an epoch of {len(rows)} pairs is too few for {self._n_together} batches a step; "
                "lower optimizer.accumulate, raise the weights, or start fewer processes"
            )
        return plan.of_rows(rows)

    def epoch(self, epoch: int, *, skip: int = 0) -> Iterator[Batch]:
        """Yield this process's batches of an epoch, on the CPU.

        Args:
            epoch: counted from 0.
            skip: batches that this process has done before.
        """
        plan = self.plan(epoch)
        for number in range(self._rank + skip * self._world_size, len(plan), self._world_size):
            yield self._make(plan[number], random.Random(mix_seed(self._seed, epoch, 2, number)))

    def _make(self, rows: Sequence[int], rng: random.Random) -> Batch:
        corpus = self._corpus
        tokenizers = {
            "src_tokenizer": corpus.src_tokenizer,
            "tgt_tokenizer": corpus.tgt_tokenizer,
        }
        if not any(self._droppers):
            src, tgt = corpus.train.gather(rows)
            return collate_ragged(src, tgt, **tokenizers)
        return collate([self._drop(corpus.train[row], rng) for row in rows], **tokenizers)

    def _drop(self, pair: Pair, rng: random.Random) -> Pair:
        """Split a pair anew; one that would become too long stays as it is."""
        src, tgt = (
            ids if dropper is None or len(split := dropper(ids, rng)) > self._max_tokens else split
            for ids, dropper in zip(pair, self._droppers, strict=True)
        )
        return src, tgt


class Position(NamedTuple):
    """Where in the data a run stands."""

    epoch: int = 0
    """Passes over the data begun, counted from 0."""
    batch: int = 0
    """Batches of this epoch done, those of all processes."""


class Share(NamedTuple):
    """What one process does in one step."""

    batches: list[Batch]
    after: Position
    """Where the run stands once all processes have done theirs."""


class Feed:
    """Batches for ever, epoch after epoch."""

    def __init__(self, stream: BatchStream, team: Team) -> None:
        """Stand before the first batch; `seek` goes elsewhere.

        Args:
            stream: this process's batches of an epoch.
            team: whose device they go to, and how many share the epoch.
        """
        self._stream = stream
        self._team = team
        self._batches = self._read(Position())

    def seek(self, position: Position) -> None:
        """Go on from a position that a `Share` told."""
        self._batches = self._read(position)

    def take(self, n: int) -> Share:
        """Return `n` batches; each other process gets as many of its own."""
        taken = [next(self._batches) for _ in range(n)]
        return Share([batch for batch, _ in taken], taken[-1][1])

    def _read(self, position: Position) -> Iterator[tuple[Batch, Position]]:
        epoch, size = position.epoch, self._team.size
        done = position.batch // size
        while True:
            for batch in self._stream.epoch(epoch, skip=done):
                done += 1
                yield batch.to(self._team.device), Position(epoch, done * size)
            epoch, done = epoch + 1, 0

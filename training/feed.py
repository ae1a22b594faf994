"""The endless row of batches that a run eats, cut among its processes.

Takes a corpus and a position, gives each process its share of the next step. Must not know the
model. What comes next follows from the seed and the position alone, so a run that is resumed, with
as many processes or others, reads on where it stopped.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch

from training.batches import Batch, collate, plan_epoch
from training.prepare import Corpus


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

    def __init__(
        self,
        corpus: Corpus,
        *,
        batch_tokens: int,
        seed: int,
        device: torch.device,
        rank: int = 0,
        size: int = 1,
    ) -> None:
        """Stand before the first batch; `seek` goes elsewhere."""
        self._corpus = corpus
        self._batch_tokens = batch_tokens
        self._seed = seed
        self._device = device
        self._rank, self._size = rank, size
        self._rows = self._read(Position())

    def seek(self, position: Position) -> None:
        """Go on from a position that a `Share` told."""
        self._rows = self._read(position)

    def take(self, n: int) -> Share:
        """Return `n` batches; the other processes get the `n * (size - 1)` between them."""
        batches, after = [], Position()
        for turn in range(n * self._size):
            rows, after = next(self._rows)
            if turn % self._size == self._rank:
                batches.append(self._collate(rows))
        return Share(batches, after)

    def _read(self, position: Position) -> Iterator[tuple[list[int], Position]]:
        epoch, done = position
        while True:
            plan = plan_epoch(
                self._corpus.train,
                batch_tokens=self._batch_tokens,
                seed=hash((self._seed, epoch)),
            )
            for number, rows in enumerate(plan[done:], start=done + 1):
                yield rows, Position(epoch, number)
            epoch, done = epoch + 1, 0

    def _collate(self, rows: list[int]) -> Batch:
        corpus = self._corpus
        return collate(
            [corpus.train[row] for row in rows],
            src_tokenizer=corpus.src_tokenizer,
            tgt_tokenizer=corpus.tgt_tokenizer,
        ).to(self._device)

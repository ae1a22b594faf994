"""The endless row of batches that a run eats, step by step.

Takes a `BatchStream` and a position, gives this process's share of the next step. Must not know the
model. What comes next follows from the seed and the position alone, so a run that is resumed, with
as many processes or others, reads on where it stopped.
"""

from collections.abc import Iterator
from typing import NamedTuple

from training.data.batching import Batch
from training.data.stream import BatchStream
from training.distributed import Team


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

"""The loader: every pair once an epoch, the same row of batches however many processes share it."""

import dataclasses

import torch

from training.data.batching import Batch
from training.data.loader import BatchStream, Loader, Position
from training.distributed import Team
from training.run.trainer import Run


def make_loader(
    current: Run, *, rank: int = 0, size: int = 1, accumulate: int = 4, seed: int = 5
) -> Loader:
    config = current.config
    optimizer = dataclasses.replace(config.optimizer, accumulate=accumulate)
    settings = dataclasses.replace(config.run, seed=seed)
    config = dataclasses.replace(config, optimizer=optimizer, run=settings)
    team = Team(torch.device("cpu"), rank=rank, size=size)
    return Loader(BatchStream(config, current.corpus, rank=rank, world_size=size), team)


def texts(batch: Batch) -> list[tuple[int, ...]]:
    """Source and target ids of each pair; 0 is padding."""
    rows = zip(batch.src.src_ids.tolist(), batch.tgt_in.tolist(), strict=True)
    return [tuple(i for i in (*src, *tgt) if i) for src, tgt in rows]


def take_batches(loader: Loader, n: int) -> list[list[tuple[int, ...]]]:
    return [texts(batch) for _ in range(n) for batch in loader.take(1).batches]


def test_epochs_pass_through_all_pairs_in_different_orders(farm_run: Run) -> None:
    loader = make_loader(farm_run)
    epochs: list[list[tuple[int, ...]]] = [[], []]
    while (share := loader.take(1)).after.epoch < 2:
        epochs[share.after.epoch] += texts(share.batches[0])
    assert farm_run.corpus.tokenizers.src.pad_id == 0
    assert len(epochs[0]) == len(farm_run.corpus.train)
    assert sorted(epochs[0]) == sorted(epochs[1])
    assert epochs[0] != epochs[1]


def test_a_feed_goes_on_from_any_position(farm_run: Run) -> None:
    loader = make_loader(farm_run)
    expected, positions = [], [Position()]
    for _ in range(12):
        share = loader.take(1)
        expected.append(texts(share.batches[0]))
        positions.append(share.after)
    assert positions[-1].epoch > 0
    for at, position in enumerate(positions[:-1]):
        other = make_loader(farm_run)
        other.seek(position)
        assert texts(other.take(1).batches[0]) == expected[at]


def test_processes_share_the_row_of_one_in_turn(farm_run: Run) -> None:
    alone = make_loader(farm_run, accumulate=12).take(12)
    for size, n in ((2, 6), (3, 4), (4, 3)):
        shares = [
            make_loader(farm_run, accumulate=n, rank=r, size=size).take(n) for r in range(size)
        ]
        assert {share.after for share in shares} == {alone.after}
        together = [texts(share.batches[i]) for i in range(n) for share in shares]
        assert together == [texts(batch) for batch in alone.batches]


def test_another_seed_gives_another_order(farm_run: Run) -> None:
    one, other = (make_loader(farm_run, seed=seed) for seed in (5, 6))
    assert take_batches(one, 4) != take_batches(other, 4)

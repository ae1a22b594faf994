"""Batches: each pair once per epoch, within the budget, in an order that the seed decides."""

import random
from itertools import pairwise

import pytest
import torch

from hubnmt.tokenizer import Tokenizer
from training.batches import Pair, collate, plan_epoch

BUDGET = 60


def random_pairs(n: int = 200) -> list[Pair]:
    rng = random.Random(3)
    return [
        tuple([rng.randrange(3, 50) for _ in range(rng.randrange(1, 25))] for _ in range(2))  # type: ignore[misc]
        for _ in range(n)
    ]


def padded_tokens(pairs: list[Pair], rows: list[int]) -> int:
    """Tokens of the longer side once padded; each row also gets bos or eos."""
    return len(rows) * max(len(side) + 1 for row in rows for side in pairs[row])


# --- the plan ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 77])
@pytest.mark.parametrize("batch_tokens", [1, 26, BUDGET, 10**6])
def test_every_pair_is_in_exactly_one_batch(seed: int, batch_tokens: int) -> None:
    pairs = random_pairs()
    plan = plan_epoch(pairs, batch_tokens=batch_tokens, seed=seed)
    assert sorted(row for rows in plan for row in rows) == list(range(len(pairs)))
    assert all(plan)


def test_no_batch_is_over_the_budget_on_either_side() -> None:
    pairs = random_pairs()
    plan = plan_epoch(pairs, batch_tokens=BUDGET, seed=1)
    assert max(padded_tokens(pairs, rows) for rows in plan) <= BUDGET


def test_a_pair_longer_than_the_budget_stands_alone() -> None:
    pairs: list[Pair] = [([5], [5]), ([5] * 99, [5] * 2), ([5] * 2, [5] * 99), ([5], [5])]
    plan = plan_epoch(pairs, batch_tokens=10, seed=1)
    assert [1] in plan
    assert [2] in plan
    assert sorted(len(rows) for rows in plan) == [1, 1, 2]


def test_the_budget_is_well_used() -> None:
    pairs = random_pairs(2000)
    plan = plan_epoch(pairs, batch_tokens=500, seed=1)
    real = sum(len(tgt) + 1 for _, tgt in pairs)
    assert len(plan) * 500 < 2 * real  # as many sources are longer than their target as not


def test_batches_hold_targets_of_similar_length() -> None:
    pairs = random_pairs(2000)
    plan = plan_epoch(pairs, batch_tokens=500, seed=1)
    spans = [[len(pairs[row][1]) for row in rows] for rows in plan]
    assert max(max(span) - min(span) for span in spans) <= 2


def test_the_same_seed_gives_the_same_plan_whatever_the_global_state() -> None:
    pairs = random_pairs()
    first = plan_epoch(pairs, batch_tokens=BUDGET, seed=4)
    random.seed(99)
    torch.manual_seed(99)
    assert plan_epoch(pairs, batch_tokens=BUDGET, seed=4) == first


def test_another_seed_gives_other_batches_in_another_order() -> None:
    pairs = random_pairs()
    plans = [plan_epoch(pairs, batch_tokens=BUDGET, seed=seed) for seed in (4, 5)]
    contents = [{frozenset(rows) for rows in plan} for plan in plans]
    assert plans[0] != plans[1]
    assert contents[0] != contents[1]


def test_batches_do_not_come_by_length() -> None:
    plan = plan_epoch(pairs := random_pairs(), batch_tokens=BUDGET, seed=1)
    lengths = [len(pairs[rows[0]][1]) for rows in plan]
    assert any(a > b for a, b in pairwise(lengths))
    assert any(a < b for a, b in pairwise(lengths))


def test_planning_does_not_touch_the_global_random_state() -> None:
    before = random.getstate(), torch.get_rng_state()
    plan_epoch(random_pairs(), batch_tokens=BUDGET, seed=1)
    assert random.getstate() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])


def test_no_pairs_make_no_batches() -> None:
    assert plan_epoch([], batch_tokens=BUDGET, seed=1) == []


# --- the tensors ---------------------------------------------------------------------------------


def test_labels_are_the_targets_shifted_by_one(tiny_tokenizer: Tokenizer) -> None:
    pairs: list[Pair] = [([9, 8, 7], [5, 6]), ([4], [7, 8, 9, 10]), ([3, 3], [])]
    batch = collate(pairs, src_tokenizer=tiny_tokenizer, tgt_tokenizer=tiny_tokenizer)
    pad, bos, eos = tiny_tokenizer.pad_id, tiny_tokenizer.bos_id, tiny_tokenizer.eos_id
    assert batch.src.src_ids.tolist() == [[9, 8, 7, eos], [4, eos, pad, pad], [3, 3, eos, pad]]
    assert batch.tgt_in.tolist() == [
        [bos, 5, 6, pad, pad],
        [bos, 7, 8, 9, 10],
        [bos, pad, pad, pad, pad],
    ]
    assert batch.labels.tolist() == [5, 6, eos, 7, 8, 9, 10, eos, eos]
    assert batch.is_label.sum(1).tolist() == [3, 5, 1]


def test_each_label_is_the_decoders_next_input(tiny_tokenizer: Tokenizer) -> None:
    pairs = random_pairs(9)
    batch = collate(pairs, src_tokenizer=tiny_tokenizer, tgt_tokenizer=tiny_tokenizer)
    labels = torch.full(batch.tgt_in.shape, tiny_tokenizer.pad_id)
    labels[batch.is_label] = batch.labels
    for (_, tgt), tgt_in, row in zip(pairs, batch.tgt_in, labels, strict=True):
        assert tgt_in[1 : len(tgt) + 1].tolist() == row[: len(tgt)].tolist() == list(tgt)
        assert row[len(tgt)] == tiny_tokenizer.eos_id


def test_each_side_is_padded_with_its_own_tokenizer(tiny_tokenizer: Tokenizer) -> None:
    class OtherIds:
        pad_id, bos_id, eos_id = 11, 12, 13

    pairs: list[Pair] = [([9, 8], [5]), ([4], [7, 8])]
    other: Tokenizer = OtherIds()  # type: ignore[assignment]
    batch = collate(pairs, src_tokenizer=tiny_tokenizer, tgt_tokenizer=other)
    assert batch.src.src_ids[1].tolist() == [4, tiny_tokenizer.eos_id, tiny_tokenizer.pad_id]
    assert batch.tgt_in[0].tolist() == [12, 5, 11]
    assert batch.labels.tolist() == [5, 13, 7, 8, 13]


def test_moving_a_batch_moves_every_tensor(tiny_tokenizer: Tokenizer) -> None:
    batch = collate(random_pairs(3), src_tokenizer=tiny_tokenizer, tgt_tokenizer=tiny_tokenizer)
    moved = batch.to(torch.device("meta"))
    assert {tensor.device.type for tensor in (*moved.src, *moved[1:])} == {"meta"}
    assert [tensor.shape for tensor in moved[1:]] == [tensor.shape for tensor in batch[1:]]

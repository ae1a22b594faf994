"""Batches: each pair once per epoch, within the budget, in an order that the seed decides."""

import random
from itertools import pairwise

import pytest
import torch

from hubnmt.model.batching import Ragged
from hubnmt.text.tokenizer import Tokenizer, Tokenizers
from training.data.batching import (
    Pair,
    collate,
    collate_ragged,
    draw_rows,
    measure_lengths,
    mix_seed,
    plan_epoch,
)

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
    plan = plan_epoch(measure_lengths(pairs), batch_tokens=batch_tokens, seed=seed)
    assert sorted(row for rows in plan for row in rows) == list(range(len(pairs)))
    assert all(plan)


def test_no_batch_is_over_the_budget_on_either_side() -> None:
    pairs = random_pairs()
    plan = plan_epoch(measure_lengths(pairs), batch_tokens=BUDGET, seed=1)
    assert max(padded_tokens(pairs, rows) for rows in plan) <= BUDGET


def test_a_pair_longer_than_the_budget_stands_alone() -> None:
    pairs: list[Pair] = [([5], [5]), ([5] * 99, [5] * 2), ([5] * 2, [5] * 99), ([5], [5])]
    plan = plan_epoch(measure_lengths(pairs), batch_tokens=10, seed=1)
    assert [1] in plan
    assert [2] in plan
    assert sorted(len(rows) for rows in plan) == [1, 1, 2]


def test_the_budget_is_well_used() -> None:
    pairs = random_pairs(2000)
    plan = plan_epoch(measure_lengths(pairs), batch_tokens=500, seed=1)
    real = sum(len(tgt) + 1 for _, tgt in pairs)
    assert len(plan) * 500 < 2 * real  # as many sources are longer than their target as not


def test_batches_hold_targets_of_similar_length() -> None:
    pairs = random_pairs(2000)
    plan = plan_epoch(measure_lengths(pairs), batch_tokens=500, seed=1)
    spans = [[len(pairs[row][1]) for row in rows] for rows in plan]
    assert max(max(span) - min(span) for span in spans) <= 2


def test_the_same_seed_gives_the_same_plan_whatever_the_global_state() -> None:
    pairs = random_pairs()
    first = plan_epoch(measure_lengths(pairs), batch_tokens=BUDGET, seed=4)
    random.seed(99)
    torch.manual_seed(99)
    assert list(plan_epoch(measure_lengths(pairs), batch_tokens=BUDGET, seed=4)) == list(first)


def test_another_seed_gives_other_batches_in_another_order() -> None:
    pairs = random_pairs()
    plans = [plan_epoch(measure_lengths(pairs), batch_tokens=BUDGET, seed=seed) for seed in (4, 5)]
    contents = [{frozenset(rows) for rows in plan} for plan in plans]
    assert list(plans[0]) != list(plans[1])
    assert contents[0] != contents[1]


def test_batches_do_not_come_by_length() -> None:
    plan = plan_epoch(measure_lengths(pairs := random_pairs()), batch_tokens=BUDGET, seed=1)
    lengths = [len(pairs[rows[0]][1]) for rows in plan]
    assert any(a > b for a, b in pairwise(lengths))
    assert any(a < b for a, b in pairwise(lengths))


def test_planning_does_not_touch_the_global_random_state() -> None:
    before = random.getstate(), torch.get_rng_state()
    plan_epoch(measure_lengths(random_pairs()), batch_tokens=BUDGET, seed=1)
    assert random.getstate() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])


def test_no_pairs_make_no_batches() -> None:
    assert list(plan_epoch(measure_lengths([]), batch_tokens=BUDGET, seed=1)) == []


@pytest.mark.parametrize("n_together", [2, 3, 64])
def test_the_number_of_batches_is_a_multiple(n_together: int) -> None:
    pairs = random_pairs()
    plan = plan_epoch(measure_lengths(pairs), batch_tokens=BUDGET, seed=1, n_together=n_together)
    assert len(plan) % n_together == 0
    assert sorted(row for rows in plan for row in rows) == list(range(len(pairs)))
    assert max(padded_tokens(pairs, rows) for rows in plan if len(rows) > 1) <= BUDGET


def test_with_fewer_pairs_than_the_multiple_each_stands_alone() -> None:
    pairs = random_pairs(5)
    plan = plan_epoch(measure_lengths(pairs), batch_tokens=10**6, seed=1, n_together=8)
    assert sorted(plan) == [[0], [1], [2], [3], [4]]


@pytest.mark.parametrize("n_together", [1, 3])
def test_the_largest_batches_can_come_first(n_together: int) -> None:
    pairs = random_pairs()

    def size(rows: list[int]) -> int:
        sides = ([len(pairs[row][side]) + 1 for row in rows] for side in (0, 1))
        return len(rows) * sum(map(max, sides))

    options = {"batch_tokens": BUDGET, "n_together": n_together}
    plan = plan_epoch(measure_lengths(pairs), seed=1, is_largest_first=True, **options)
    sizes = [size(rows) for rows in plan]
    assert sizes[:n_together] == sorted(sizes, reverse=True)[:n_together]
    assert sizes[n_together:] != sorted(sizes[n_together:], reverse=True)
    usual = plan_epoch(measure_lengths(pairs), seed=1, **options)
    assert sorted(plan) == sorted(usual)


def test_a_part_of_a_plan_is_a_plan() -> None:
    plan = plan_epoch(measure_lengths(random_pairs()), batch_tokens=BUDGET, seed=1)
    assert list(plan[3:7]) == list(plan)[3:7]
    assert plan[-1] == list(plan)[-1]
    with pytest.raises(IndexError):
        plan[len(plan)]


def test_a_plan_can_be_about_other_rows() -> None:
    plan = plan_epoch(measure_lengths(random_pairs(30)), batch_tokens=BUDGET, seed=1)
    moved = plan.of_rows(torch.arange(30) + 100)
    assert [[row - 100 for row in rows] for rows in moved] == list(plan)


# --- the rows of an epoch ------------------------------------------------------------------------


def test_weight_one_takes_every_pair_once() -> None:
    assert draw_rows([3, 0, 2], [1.0, 1.0, 1.0], seed=1).tolist() == [0, 1, 2, 3, 4]


def test_a_weight_counts_how_often_a_pair_is_taken() -> None:
    rows = draw_rows([100, 40, 8], [0.25, 2.5, 1.0], seed=1).tolist()
    counts = [sum(start <= row < end for row in rows) for start, end in ((0, 100), (100, 140))]
    assert counts == [25, 100]
    assert [rows.count(row) for row in range(140, 148)] == [1] * 8
    assert {rows.count(row) for row in range(100, 140)} == {2, 3}
    assert max(rows.count(row) for row in range(100)) == 1


def test_the_seed_decides_which_part_is_taken() -> None:
    draws = [draw_rows([100], [0.5], seed=seed).tolist() for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]
    assert all(len(set(draw)) == 50 for draw in draws)


def test_seeds_of_different_parts_differ() -> None:
    parts = [(0,), (1,), (1, 0), (0, 1), (0, 1, 0), (10, 1), (1, 10), (2**62, 3)]
    seeds = {mix_seed(*each) for each in parts}
    assert len(seeds) == len(parts)
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert mix_seed(1, 2) == mix_seed(1, 2)


# --- the tensors ---------------------------------------------------------------------------------


def test_labels_are_the_targets_shifted_by_one(tiny_tokenizer: Tokenizer) -> None:
    pairs: list[Pair] = [([9, 8, 7], [5, 6]), ([4], [7, 8, 9, 10]), ([3, 3], [])]
    batch = collate(pairs, tokenizers=Tokenizers(tiny_tokenizer, tiny_tokenizer))
    pad, bos, eos = tiny_tokenizer.pad_id, tiny_tokenizer.bos_id, tiny_tokenizer.eos_id
    assert batch.src.src_ids.tolist() == [[9, 8, 7, eos], [4, eos, pad, pad], [3, 3, eos, pad]]
    assert batch.tgt_in.tolist() == [
        [bos, 5, 6, pad, pad],
        [bos, 7, 8, 9, 10],
        [bos, pad, pad, pad, pad],
    ]
    assert batch.labels.tolist() == [5, 6, eos, 7, 8, 9, 10, eos, eos]
    assert batch.places.tolist() == [0, 1, 2, 5, 6, 7, 8, 9, 10]


def test_each_label_is_the_decoders_next_input(tiny_tokenizer: Tokenizer) -> None:
    pairs = random_pairs(9)
    batch = collate(pairs, tokenizers=Tokenizers(tiny_tokenizer, tiny_tokenizer))
    labels = torch.full(batch.tgt_in.shape, tiny_tokenizer.pad_id)
    labels.view(-1)[batch.places] = batch.labels
    for (_, tgt), tgt_in, row in zip(pairs, batch.tgt_in, labels, strict=True):
        assert tgt_in[1 : len(tgt) + 1].tolist() == row[: len(tgt)].tolist() == list(tgt)
        assert row[len(tgt)] == tiny_tokenizer.eos_id


def test_each_side_is_padded_with_its_own_tokenizer(tiny_tokenizer: Tokenizer) -> None:
    class OtherIds:
        pad_id, bos_id, eos_id = 11, 12, 13

    pairs: list[Pair] = [([9, 8], [5]), ([4], [7, 8])]
    other: Tokenizer = OtherIds()  # type: ignore[assignment]
    batch = collate(pairs, tokenizers=Tokenizers(tiny_tokenizer, other))
    assert batch.src.src_ids[1].tolist() == [4, tiny_tokenizer.eos_id, tiny_tokenizer.pad_id]
    assert batch.tgt_in[0].tolist() == [12, 5, 11]
    assert batch.labels.tolist() == [5, 13, 7, 8, 13]


def test_rows_that_are_no_lists_make_the_same_batch(tiny_tokenizer: Tokenizer) -> None:
    pairs = random_pairs(7)
    flat = torch.tensor([0, 0, *(i for pair in pairs for ids in pair for i in ids)])
    lengths = measure_lengths(pairs).long()
    starts = (2 + lengths.flatten().cumsum(0) - lengths.flatten()).view(-1, 2)
    sides = (Ragged(flat, starts[:, side], lengths[:, side]) for side in (0, 1))
    tokenizers = {"tokenizers": Tokenizers(tiny_tokenizer, tiny_tokenizer)}
    ragged, listed = collate_ragged(*sides, **tokenizers), collate(pairs, **tokenizers)
    for mine, theirs in zip((*ragged.src, *ragged[1:]), (*listed.src, *listed[1:]), strict=True):
        assert mine.dtype == theirs.dtype
        assert torch.equal(mine, theirs)


def test_moving_a_batch_moves_every_tensor(tiny_tokenizer: Tokenizer) -> None:
    batch = collate(random_pairs(3), tokenizers=Tokenizers(tiny_tokenizer, tiny_tokenizer))
    moved = batch.to(torch.device("meta"))
    assert {tensor.device.type for tensor in (*moved.src, *moved[1:])} == {"meta"}
    assert [tensor.shape for tensor in moved[1:]] == [tensor.shape for tensor in batch[1:]]


def test_the_first_rows_of_a_batch_are_a_batch(tiny_tokenizer: Tokenizer) -> None:
    pairs = random_pairs(5)
    tokenizers = {"tokenizers": Tokenizers(tiny_tokenizer, tiny_tokenizer)}
    part = collate(pairs, **tokenizers).first_rows(2)
    alone = collate(pairs[:2], **tokenizers)
    assert part.labels.tolist() == alone.labels.tolist()
    n_src, n_tgt = alone.src.src_ids.shape[1], alone.tgt_in.shape[1]
    assert part.src.src_ids[:, :n_src].tolist() == alone.src.src_ids.tolist()
    assert part.tgt_in[:, :n_tgt].tolist() == alone.tgt_in.tolist()
    assert part.src.src_pad_mask[:, n_src:].all()
    assert part.places.max() < part.tgt_in.numel()
    assert (part.places % part.tgt_in.shape[1]).max() < n_tgt


def test_picking_finds_what_stands_at_each_label(tiny_tokenizer: Tokenizer) -> None:
    batch = collate(random_pairs(5), tokenizers=Tokenizers(tiny_tokenizer, tiny_tokenizer))
    hidden = torch.arange(batch.tgt_in.numel() * 3).view(*batch.tgt_in.shape, 3)
    by_hand = [
        hidden[row, column]
        for row, tgt_in in enumerate(batch.tgt_in)
        for column in range(int((tgt_in != tiny_tokenizer.pad_id).sum()))
    ]
    assert torch.equal(batch.pick(hidden), torch.stack(by_hand))


def test_a_batch_twice_is_its_rows_and_then_its_rows_again(tiny_tokenizer: Tokenizer) -> None:
    batch = collate(random_pairs(5), tokenizers=Tokenizers(tiny_tokenizer, tiny_tokenizer))
    twice = batch.twice()
    for mine, theirs in zip((*twice.src, twice.tgt_in), (*batch.src, batch.tgt_in), strict=True):
        assert torch.equal(mine, torch.cat([theirs, theirs]))
    assert torch.equal(twice.labels, batch.labels.repeat(2))
    inputs = batch.tgt_in.unsqueeze(-1)
    assert torch.equal(twice.pick(twice.tgt_in.unsqueeze(-1)), batch.pick(inputs).repeat(2, 1))


@pytest.mark.gpu
def test_gpu_gets_the_batch_from_pinned_memory(tiny_tokenizer: Tokenizer) -> None:
    ends = {"tokenizers": Tokenizers(tiny_tokenizer, tiny_tokenizer)}
    batch = collate([([5, 6], [7]), ([8], [9, 10, 11])], **ends)
    moved = batch.to(torch.device("cuda"))
    torch.cuda.synchronize()
    for here, there in zip((*batch.src, *batch[1:]), (*moved.src, *moved[1:]), strict=True):
        assert torch.equal(here, there.cpu())

"""Batching: ids in, padded tensors out, bos and eos added here and nowhere else."""

import random
from itertools import pairwise

import pytest
import torch

from hubnmt.model.batching import (
    Ragged,
    batch_ragged_sources,
    batch_ragged_targets,
    batch_sources,
    batch_targets,
    group_by_length,
    pad_rows,
)

PAD, BOS, EOS = 0, 1, 2
ROWS = [[7, 8, 9], [5], [], [6, 4, 3, 7, 8]]


def test_rows_come_back_from_the_padded_tensor() -> None:
    ids, pad_mask = pad_rows(ROWS, PAD)
    restored = [row[~pads].tolist() for row, pads in zip(ids, pad_mask, strict=True)]
    assert restored == ROWS
    assert (ids[pad_mask] == PAD).all()


def test_padding_is_counted_by_length_even_where_a_token_looks_like_padding() -> None:
    ids, pad_mask = pad_rows([[PAD, 5, PAD], [5]], PAD)
    assert pad_mask.tolist() == [[False, False, False], [False, True, True]]
    assert ids.tolist() == [[PAD, 5, PAD], [5, PAD, PAD]]


def test_padding_id_is_the_one_given() -> None:
    assert pad_rows([[5, 6], [4]], 9)[0].tolist() == [[5, 6], [4, 9]]


def test_every_source_ends_with_exactly_one_eos() -> None:
    batch = batch_sources(ROWS, pad_id=PAD, eos_id=EOS)
    for row, ids, pads in zip(ROWS, batch.src_ids, batch.src_pad_mask, strict=True):
        assert ids[~pads].tolist() == [*row, EOS]


def test_an_empty_source_still_has_a_token_to_look_at() -> None:
    batch = batch_sources([[]], pad_id=PAD, eos_id=EOS)
    assert batch.src_ids.tolist() == [[EOS]]
    assert not batch.src_pad_mask.any()


def test_decoder_input_and_label_are_the_same_ids_shifted_by_one() -> None:
    batch = batch_targets(ROWS, pad_id=PAD, bos_id=BOS, eos_id=EOS)
    for row, tgt_in, tgt_out, pads in zip(
        ROWS, batch.tgt_in, batch.tgt_out, batch.tgt_pad_mask, strict=True
    ):
        assert tgt_in[~pads].tolist() == [BOS, *row]
        assert tgt_out[~pads].tolist() == [*row, EOS]
        assert (tgt_in[pads] == PAD).all()
        assert (tgt_out[pads] == PAD).all()


def test_batch_is_what_each_row_alone_would_be() -> None:
    together = batch_sources(ROWS, pad_id=PAD, eos_id=EOS)
    for index, row in enumerate(ROWS):
        alone = batch_sources([row], pad_id=PAD, eos_id=EOS)
        width = alone.src_ids.shape[1]
        assert torch.equal(together.src_ids[index : index + 1, :width], alone.src_ids)
        assert together.src_pad_mask[index, width:].all()


@pytest.mark.parametrize("rows", [ROWS, [[]], [[5]], [[PAD, EOS, PAD], [BOS]], ROWS[::-1]])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_rows_that_are_no_lists_make_the_same_tensors(
    rows: list[list[int]], dtype: torch.dtype
) -> None:
    flat, starts = [9, 9, 9], []
    for row in reversed(rows):  # they may stand in any order, with anything between
        starts.insert(0, len(flat))
        flat += [*row, 9]
    ragged = Ragged(
        torch.tensor(flat, dtype=dtype),
        torch.tensor(starts),
        torch.tensor([len(row) for row in rows]),
    )
    sources = batch_ragged_sources(ragged, pad_id=PAD, eos_id=EOS)
    targets = batch_ragged_targets(ragged, pad_id=PAD, bos_id=BOS, eos_id=EOS)
    listed = (
        *batch_sources(rows, pad_id=PAD, eos_id=EOS),
        *batch_targets(rows, pad_id=PAD, bos_id=BOS, eos_id=EOS),
    )
    for mine, theirs in zip((*sources, *targets), listed, strict=True):
        assert mine.dtype == theirs.dtype
        assert torch.equal(mine, theirs)


def test_row_order_is_kept() -> None:
    forward = batch_sources(ROWS, pad_id=PAD, eos_id=EOS).src_ids
    backward = batch_sources(ROWS[::-1], pad_id=PAD, eos_id=EOS).src_ids
    assert torch.equal(forward.flip(0), backward)


def test_rows_are_not_changed() -> None:
    rows = [[7, 8], [5]]
    batch_targets(rows, pad_id=PAD, bos_id=BOS, eos_id=EOS)
    batch_sources(rows, pad_id=PAD, eos_id=EOS)
    assert rows == [[7, 8], [5]]


def test_types_and_shapes() -> None:
    batch = batch_targets(ROWS, pad_id=PAD, bos_id=BOS, eos_id=EOS)
    assert batch.tgt_in.shape == batch.tgt_out.shape == batch.tgt_pad_mask.shape == (4, 6)
    assert (batch.tgt_in.dtype, batch.tgt_out.dtype) == (torch.int64, torch.int64)
    assert batch.tgt_pad_mask.dtype == torch.bool
    assert pad_rows([[], []], PAD)[0].shape == (2, 0)


LENGTHS = [random.Random(0).randint(1, 40) for _ in range(200)] + [500, 500]


@pytest.mark.parametrize("max_batch_tokens", [1, 40, 97, 1000, 10**6])
def test_every_sentence_is_in_exactly_one_batch(max_batch_tokens: int) -> None:
    batches = group_by_length(LENGTHS, max_batch_tokens)
    assert sorted(index for batch in batches for index in batch) == list(range(len(LENGTHS)))


@pytest.mark.parametrize("max_batch_tokens", [1, 40, 97, 1000, 10**6])
def test_padded_batch_stays_within_its_budget_unless_one_sentence_breaks_it(
    max_batch_tokens: int,
) -> None:
    for batch in group_by_length(LENGTHS, max_batch_tokens):
        padded_tokens = len(batch) * max(LENGTHS[index] for index in batch)
        assert padded_tokens <= max_batch_tokens or len(batch) == 1


def test_batches_are_as_full_as_their_budget_allows() -> None:
    batches = group_by_length(LENGTHS, 97)
    for batch, following in pairwise(batches):
        assert LENGTHS[batch[0]] * (len(batch) + 1) > 97
        assert LENGTHS[batch[-1]] >= LENGTHS[following[0]]


def test_largest_batch_comes_first() -> None:
    assert set(group_by_length(LENGTHS, 97)[0]) <= {200, 201}


def test_equal_lengths_keep_their_order() -> None:
    assert group_by_length([3, 3, 3, 3], 6) == [[0, 1], [2, 3]]


def test_nothing_to_group_gives_no_batches() -> None:
    assert group_by_length([], 100) == []

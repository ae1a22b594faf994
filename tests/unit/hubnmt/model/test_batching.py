"""Batching: ids in, padded tensors out, bos and eos added here and nowhere else."""

import random
from itertools import pairwise

import pytest

from hubnmt.model.batching import batch_sources, batch_targets, group_by_length

PAD, BOS, EOS = 0, 1, 2
ROWS = [[7, 8, 9], [5], [], [6, 4, 3, 7, 8]]


def test_padding_is_counted_by_length_even_where_a_token_looks_like_padding() -> None:
    ids, pad_mask = batch_sources([[PAD, 5, PAD], [5]], pad_id=PAD, eos_id=EOS)
    assert pad_mask.tolist() == [[False] * 4, [False, False, True, True]]
    assert ids.tolist() == [[PAD, 5, PAD, EOS], [5, EOS, PAD, PAD]]


def test_every_source_ends_with_exactly_one_eos() -> None:
    batch = batch_sources(ROWS, pad_id=PAD, eos_id=EOS)
    for row, ids, pads in zip(ROWS, batch.src_ids, batch.src_pad_mask, strict=True):
        assert ids[~pads].tolist() == [*row, EOS]


def test_decoder_input_and_label_are_the_same_ids_shifted_by_one() -> None:
    batch = batch_targets(ROWS, pad_id=PAD, bos_id=BOS, eos_id=EOS)
    for row, tgt_in, tgt_out, pads in zip(
        ROWS, batch.tgt_in, batch.tgt_out, batch.tgt_pad_mask, strict=True
    ):
        assert tgt_in[~pads].tolist() == [BOS, *row]
        assert tgt_out[~pads].tolist() == [*row, EOS]
        assert {*tgt_in[pads].tolist(), *tgt_out[pads].tolist()} <= {PAD}


LENGTHS = [random.Random(0).randint(1, 40) for _ in range(200)] + [500, 500]


@pytest.mark.parametrize("max_batch_tokens", [1, 97, 10**6])
def test_batches_hold_every_sentence_once_and_are_as_full_as_their_budget_allows(
    max_batch_tokens: int,
) -> None:
    batches = group_by_length(LENGTHS, max_batch_tokens)
    assert sorted(index for batch in batches for index in batch) == list(range(len(LENGTHS)))
    for batch, following in pairwise([*batches, []]):
        longest = max(LENGTHS[index] for index in batch)
        assert longest * len(batch) <= max_batch_tokens or len(batch) == 1
        if following:
            assert longest * (len(batch) + 1) > max_batch_tokens
            assert LENGTHS[batch[-1]] >= LENGTHS[following[0]]

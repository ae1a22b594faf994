"""Batches: each pair once per epoch, within the budget, in an order that the seed decides."""

import random

import pytest
import torch

from hubnmt.model.batching import Ragged
from hubnmt.text.tokenizer import Tokenizer, Tokenizers
from training.data.batching import Pair, collate, collate_ragged, measure_lengths, plan_epoch

BUDGET = 60


def random_pairs(n: int = 200) -> list[Pair]:
    rng = random.Random(3)
    return [
        tuple([rng.randrange(3, 50) for _ in range(rng.randrange(1, 25))] for _ in range(2))  # type: ignore[misc]
        for _ in range(n)
    ]


@pytest.mark.parametrize("batch_tokens", [1, 26, BUDGET, 10**6])
def test_every_pair_is_in_exactly_one_batch(batch_tokens: int) -> None:
    pairs = random_pairs()
    plan = plan_epoch(measure_lengths(pairs), batch_tokens=batch_tokens, seed=1)
    assert sorted(row for rows in plan for row in rows) == list(range(len(pairs)))
    assert all(plan)


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


@pytest.mark.gpu
def test_gpu_gets_the_batch_from_pinned_memory(tiny_tokenizer: Tokenizer) -> None:
    ends = {"tokenizers": Tokenizers(tiny_tokenizer, tiny_tokenizer)}
    batch = collate([([5, 6], [7]), ([8], [9, 10, 11])], **ends)
    moved = batch.to(torch.device("cuda"))
    torch.cuda.synchronize()
    for here, there in zip((*batch.src, *batch[1:]), (*moved.src, *moved[1:]), strict=True):
        assert torch.equal(here, there.cpu())

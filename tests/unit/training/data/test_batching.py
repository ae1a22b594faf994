"""Batches: each pair once per epoch, within the budget, in an order that the seed decides."""

import random

import pytest
import torch

from hubnmt.text.tokenizer import Tokenizer, Tokenizers
from training.data.batching import Pair, collate, measure_lengths, plan_epoch

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
    assert torch.cat(plan).sort().values.tolist() == list(range(len(pairs)))
    assert all(map(len, plan))


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
    assert batch.label_positions.tolist() == [0, 1, 2, 5, 6, 7, 8, 9, 10]


@pytest.mark.gpu
def test_gpu_gets_the_batch_from_pinned_memory(tiny_tokenizer: Tokenizer) -> None:
    ends = {"tokenizers": Tokenizers(tiny_tokenizer, tiny_tokenizer)}
    batch = collate([([5, 6], [7]), ([8], [9, 10, 11])], **ends)
    moved = batch.to(torch.device("cuda"))
    torch.cuda.synchronize()
    for here, there in zip((*batch.src, *batch[1:]), (*moved.src, *moved[1:]), strict=True):
        assert torch.equal(here, there.cpu())

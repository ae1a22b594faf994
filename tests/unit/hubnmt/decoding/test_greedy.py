"""Greedy search: a loop says the same; company changes nothing; every sentence ends."""

from typing import Any

import pytest
import torch

from hubnmt.decoding import greedy_search, run_search
from tests.tables import TableStep, random_table

BOS, EOS, V = 7, 2, 4
IDS = {"bos_id": BOS, "eos_id": EOS}


def follow(table: Any, max_tgt_tokens: int) -> tuple[list[int], float]:
    """Take the most probable token until it is eos."""
    ids: list[int] = []
    log_prob = 0.0
    while True:
        row = table(tuple(ids))
        token = max(range(V), key=row.__getitem__) if len(ids) < max_tgt_tokens else EOS
        log_prob += row[token]
        if token == EOS:
            return ids, log_prob
        ids.append(token)


@pytest.mark.parametrize("max_tgt_tokens", [0, 1, 5, 12])
def test_agrees_with_a_loop(max_tgt_tokens: int) -> None:
    for seed in range(20):
        table = random_table(seed)
        caps = torch.tensor([max_tgt_tokens])
        ((found,),) = run_search(greedy_search(TableStep([table]), **IDS, max_tgt_tokens=caps))
        ids, log_prob = follow(table, max_tgt_tokens)
        assert found.ids == ids
        assert found.log_prob == pytest.approx(log_prob, rel=1e-5)

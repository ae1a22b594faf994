"""Greedy search: a loop says the same; company changes nothing; every sentence ends."""

from typing import Any

import pytest
import torch
from torch import Tensor

from hubnmt.decoding import greedy_search, run_search

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
def test_agrees_with_a_loop(max_tgt_tokens: int, TableStep: Any, random_table: Any) -> None:
    for seed in range(20):
        table = random_table(seed)
        caps = torch.tensor([max_tgt_tokens])
        ((found,),) = run_search(greedy_search(TableStep([table]), **IDS, max_tgt_tokens=caps))
        ids, log_prob = follow(table, max_tgt_tokens)
        assert found.ids == ids
        assert found.log_prob == pytest.approx(log_prob, rel=1e-5)


def test_batched_is_the_same_as_one_at_a_time_in_any_order(
    TableStep: Any, random_table: Any
) -> None:
    tables = [random_table(seed) for seed in range(11)]
    caps = [3 + seed % 5 for seed in range(11)]

    def search(order: list[int]) -> list[Any]:
        step = TableStep([tables[b] for b in order])
        return run_search(
            greedy_search(step, **IDS, max_tgt_tokens=torch.tensor([caps[b] for b in order]))
        )

    alone = [search([b])[0] for b in range(11)]
    assert search(list(range(11))) == alone
    mixed = [4, 9, 0, 7, 3, 10, 1, 8, 2, 6, 5]
    assert search(mixed) == [alone[b] for b in mixed]


def test_finished_sentences_leave_the_batch(TableStep: Any, random_table: Any) -> None:
    lengths = [5, 1, 3, 3, 8]
    tables = [random_table(b, eos_bonus=-99, ends_after=n) for b, n in enumerate(lengths)]
    step = TableStep(tables)
    results = run_search(greedy_search(step, **IDS, max_tgt_tokens=torch.full((5,), 20)))
    assert [len(found.ids) for (found,) in results] == lengths
    assert step.shapes == [(sum(n >= t for n in lengths), 1) for t in range(9)]


def test_each_sentence_has_its_own_cap(TableStep: Any, random_table: Any) -> None:
    caps = [4, 0, 7, 1]
    tables = [random_table(b, eos_bonus=-99) for b in range(4)]
    results = run_search(greedy_search(TableStep(tables), **IDS, max_tgt_tokens=torch.tensor(caps)))
    assert [len(found.ids) for (found,) in results] == caps


def test_forced_eos_costs_what_the_model_says(TableStep: Any) -> None:
    step = TableStep([lambda _: [-0.5, -3.0, -2.0, -4.0]])
    ((found,),) = run_search(
        greedy_search(step, **IDS, max_tgt_tokens=torch.tensor([3]), length_penalty=0.0)
    )
    assert found.ids == [0, 0, 0]
    assert found.log_prob == found.score == pytest.approx(3 * -0.5 - 2.0)


@pytest.mark.parametrize("length_penalty", [-1.0, 0.0, 2.0])
def test_length_penalty_changes_the_score_only(
    length_penalty: float, TableStep: Any, random_table: Any
) -> None:
    caps = torch.tensor([6])
    ((one,),) = run_search(greedy_search(TableStep([random_table(4)]), **IDS, max_tgt_tokens=caps))
    ((other,),) = run_search(
        greedy_search(
            TableStep([random_table(4)]), **IDS, max_tgt_tokens=caps, length_penalty=length_penalty
        )
    )
    assert other[:2] == one[:2]


def test_constraint_sees_what_was_said_and_is_obeyed(TableStep: Any) -> None:
    seen: list[list[list[list[int]]]] = []

    def forbid_repeats(log_probs: Tensor, tokens: Tensor) -> Tensor:
        seen.append([[list(ids) for ids in row] for row in tokens.tolist()])
        log_probs = log_probs.clone()
        for b, row in enumerate(tokens.tolist()):
            for w, ids in enumerate(row):
                log_probs[b, w, ids] = -torch.inf
        return log_probs

    tables = [lambda _: [-0.5, -1.0, -9.0, -2.0], lambda _: [-2.0, -0.5, -1.0, -3.0]]
    results = run_search(
        greedy_search(
            TableStep(tables), **IDS, max_tgt_tokens=torch.tensor([9, 9]), constraint=forbid_repeats
        )
    )
    assert [found.ids for (found,) in results] == [[0, 1, 3], [1]]
    assert seen == [[[[]], [[]]], [[[0]], [[1]]], [[[0, 1]]], [[[0, 1, 3]]]]


def test_ends_at_the_cap_even_if_a_constraint_forbids_eos(TableStep: Any) -> None:
    def never_end(log_probs: Tensor, tokens: Tensor) -> Tensor:
        return log_probs.index_fill(-1, torch.tensor([EOS]), -torch.inf)

    step = TableStep([lambda _: [-0.5, -3.0, -2.0, -4.0]])
    ((found,),) = run_search(
        greedy_search(step, **IDS, max_tgt_tokens=torch.tensor([3]), constraint=never_end)
    )
    assert len(found.ids) <= 3


def test_no_sentences_give_no_results(TableStep: Any) -> None:
    none = torch.zeros(0, dtype=torch.int64)
    assert run_search(greedy_search(TableStep([]), **IDS, max_tgt_tokens=none)) == []

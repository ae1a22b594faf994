"""What greedy search, beam search and sampling all promise."""

import itertools
import math
from collections import Counter
from collections.abc import Callable

import pytest
import torch

from hubnmt.decoding.constraints import RequiredTokens
from hubnmt.decoding.search import Hypothesis, Search, run_to_end
from tests.tables import BOS, EOS, SEARCHES, TableStep, random_table, start_beam

Start = Callable[..., Search]
pytestmark = pytest.mark.parametrize("start", SEARCHES)


def test_batched_is_the_same_as_one_at_a_time_in_any_order(start: Start) -> None:
    tables = [random_table(seed, eos_bonus=seed % 3) for seed in range(11)]

    def search(order: list[int]) -> list[list[Hypothesis]]:
        step = TableStep([tables[b] for b in order])
        return run_to_end(start(step, [3 + b % 5 for b in order], order))

    alone = [search([b])[0] for b in range(11)]
    for order in (list(range(11)), [4, 9, 0, 7, 3, 10, 1, 8, 2, 6, 5]):
        assert search(order) == [alone[b] for b in order]


@pytest.mark.parametrize("length_penalty", [-1.5, 0.0, 2.0])
def test_log_probs_are_those_of_the_table_and_scores_follow_from_them(
    start: Start, length_penalty: float
) -> None:
    tables = [random_table(seed, eos_bonus=1.0) for seed in (4, 5, 6)]
    search = start(TableStep(tables), [5, 2, 6], [1, 2, 3], length_penalty=length_penalty)
    for table, found in zip(tables, run_to_end(search), strict=True):
        assert found == sorted(found, key=lambda each: -each.score)
        for each in found:
            path = [*each.ids, EOS]
            expected = [table(tuple(path[:t]))[token] for t, token in enumerate(path)]
            assert each.token_log_probs == pytest.approx(expected, rel=1e-4, abs=1e-5)
            assert each.log_prob == pytest.approx(sum(expected), rel=1e-4)
            assert each.score == pytest.approx(each.log_prob / len(path) ** length_penalty)
            assert BOS not in path[:-1]
            assert EOS not in path[:-1]


def test_each_sentence_has_its_own_cap_and_leaves_the_batch_when_it_ends(start: Start) -> None:
    caps = [4, 0, 7, 1]
    step = TableStep([random_table(b, eos_bonus=-99) for b in range(4)])
    results = run_to_end(start(step, caps, caps))
    assert [{len(each.ids) for each in found} for found in results] == [{cap} for cap in caps]
    assert [n for n, _ in step.shapes] == [sum(cap >= t for cap in caps) for t in range(8)]


@pytest.mark.parametrize("eos_bonus", [-3.0, 0.0, 6.0])
@pytest.mark.parametrize("seed", range(4))
def test_required_tokens_are_in_every_target_as_often_as_required(
    start: Start, seed: int, eos_bonus: float
) -> None:
    """Tokens 0 and 1 count as the same, 3 is another; the last has no room, and ends at its cap."""
    caps, required = [6, 9, 4, 0, 2], [[1, 2], [0, 0], [2, 0], [1, 0], [2, 1]]
    groups = {0: 0, 1: 0, 3: 1}
    constraint = RequiredTokens(groups, torch.tensor(required), torch.tensor(caps), eos_id=EOS)
    tables = [random_table(9 * seed + b, eos_bonus=eos_bonus) for b in range(5)]
    results = run_to_end(start(TableStep(tables), caps, caps, constraint=constraint))
    for cap, (n_first, n_other), found in zip(caps, required, results, strict=True):
        for hypothesis in found:
            counts = Counter(0 if token < 2 else 1 for token in hypothesis.ids)
            assert len(hypothesis.ids) <= cap
            assert all(math.isfinite(value) for value in hypothesis.token_log_probs)
            if n_first + n_other <= cap:
                assert (counts[0], counts[1]) == (n_first, n_other)


def test_a_search_yields_the_tokens_so_far(start: Start) -> None:
    table = random_table(6, eos_bonus=-99)
    search = start(TableStep([table]), [5], [0])
    seen = list(search)
    assert [len(ids) for ids in seen] == list(range(6))
    if start is not start_beam:  # a beam may change its mind
        assert all(later[:-1] == sooner for sooner, later in itertools.pairwise(seen))


def test_no_sentences_give_no_results(start: Start) -> None:
    assert run_to_end(start(TableStep([]), [], [])) == []

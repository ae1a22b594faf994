"""Beam search: wide enough it tries everything, narrow it is greedy, and stopping early is free."""

from typing import Any

import pytest
import torch
from torch import Tensor

from hubnmt.decoding import Hypothesis, beam_search, greedy_search, run_search

BOS, EOS, V = 7, 2, 4
IDS = {"bos_id": BOS, "eos_id": EOS}
PENALTIES = pytest.mark.parametrize("length_penalty", [-1.5, 0.0, 0.7, 1.0, 2.0])


def search(step: Any, caps: list[int], **options: Any) -> list[list[Hypothesis]]:
    return run_search(beam_search(step, **IDS, max_tgt_tokens=torch.tensor(caps), **options))


def assert_same(found: list[Hypothesis], expected: Any) -> None:
    assert [each.ids for each in found] == [each.ids for each in expected]
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.log_prob == pytest.approx(theirs.log_prob, rel=1e-5)
        assert mine.score == pytest.approx(theirs.score, rel=1e-5)


# --- against slow searches -----------------------------------------------------------------------


@PENALTIES
@pytest.mark.parametrize("seed", range(4))
def test_full_width_ranks_every_target_as_exhaustive_search_does(
    seed: int, length_penalty: float, TableStep: Any, random_table: Any, search_exhaustively: Any
) -> None:
    """Up to 3 tokens from 3 words: 40 targets; 36 continuations at most have to be kept at once."""
    table = random_table(seed)
    (found,) = search(
        TableStep([table]), [3], beam_size=41, n_best=41, length_penalty=length_penalty
    )
    expected = search_exhaustively(table, 3, length_penalty)
    assert len(expected) == 40
    assert_same(found, expected)


@PENALTIES
def test_full_width_is_exhaustive_where_sentences_end_by_themselves(
    length_penalty: float, TableStep: Any, random_table: Any, search_exhaustively: Any
) -> None:
    """Nothing is forced: after 2 tokens the table allows eos only, far below the cap."""
    tables = [random_table(seed, ends_after=2) for seed in (5, 6)]
    results = search(
        TableStep(tables), [8, 9], beam_size=14, n_best=14, length_penalty=length_penalty
    )
    for table, found in zip(tables, results, strict=True):
        expected = search_exhaustively(table, 2, length_penalty)
        assert len(expected) == 13
        assert_same(found, expected)


@PENALTIES
@pytest.mark.parametrize("n_best", [1, 2])
@pytest.mark.parametrize("beam_size", [2, 3, 5])
def test_stopping_early_finds_what_never_stopping_finds(
    beam_size: int,
    n_best: int,
    length_penalty: float,
    TableStep: Any,
    random_table: Any,
    search_slowly: Any,
) -> None:
    tables = [random_table(seed, eos_bonus=seed % 3) for seed in range(30)]
    caps = [4 + seed % 7 for seed in range(30)]
    options = {"beam_size": beam_size, "length_penalty": length_penalty}
    results = search(TableStep(tables), caps, n_best=n_best, **options)
    for table, cap, found in zip(tables, caps, results, strict=True):
        expected = search_slowly(table, max_tgt_tokens=cap, **options)
        assert_same(found, expected[:n_best])


@pytest.mark.parametrize("length_penalty", [-1.0, 0.0, 1.0])
def test_search_stops_when_nothing_better_can_come(length_penalty: float, TableStep: Any) -> None:
    """Eos at once has nearly all the probability; 19 more steps could only lose."""

    def table(prefix: tuple[int, ...]) -> list[float]:
        return [-9.0, -9.5, -0.001, -9.2] if not prefix else [-3.0, -3.1, -3.2, -3.3]

    step = TableStep([table])
    options = {"beam_size": 3, "length_penalty": length_penalty}
    ((found,),) = search(step, [20], **options)
    assert found.ids == []
    assert len(step.shapes) == 1
    patient = TableStep([table])
    search(patient, [20], n_best=3, **options)
    assert len(patient.shapes) > 1


# --- beam and greedy -----------------------------------------------------------------------------


@PENALTIES
def test_beam_of_one_is_greedy(length_penalty: float, TableStep: Any, random_table: Any) -> None:
    tables = [random_table(seed, eos_bonus=seed % 2) for seed in range(40)]
    caps = [seed % 9 for seed in range(40)]
    found = search(TableStep(tables), caps, beam_size=1, length_penalty=length_penalty)
    expected = run_search(
        greedy_search(
            TableStep(tables),
            **IDS,
            max_tgt_tokens=torch.tensor(caps),
            length_penalty=length_penalty,
        )
    )
    for mine, theirs in zip(found, expected, strict=True):
        assert_same(mine, theirs)


def garden_path(prefix: tuple[int, ...]) -> list[float]:
    """The likeliest first word, 0, leads to doubt; its rival, 1, to a certain end."""
    probabilities = {
        (): (0.6, 0.38, 0.01, 0.01),
        (0,): (0.24, 0.24, 0.28, 0.24),
        (1,): (0.01, 0.01, 0.97, 0.01),
    }
    return torch.tensor(probabilities.get(prefix, (0.2, 0.2, 0.4, 0.2))).log().tolist()


def test_beam_finds_what_greedy_misses(TableStep: Any, search_exhaustively: Any) -> None:
    ((greedy,),) = run_search(
        greedy_search(
            TableStep([garden_path]), **IDS, max_tgt_tokens=torch.tensor([3]), length_penalty=0.0
        )
    )
    ((found,),) = search(TableStep([garden_path]), [3], beam_size=2, length_penalty=0.0)
    assert (greedy.ids, found.ids) == ([0], [1])
    assert found.score > greedy.score
    assert found.ids == search_exhaustively(garden_path, 3, 0.0)[0].ids


def test_search_starts_with_one_hypothesis(TableStep: Any) -> None:
    """W equal starts would grow W equal beams: greedy search, W times as dear."""
    step = TableStep([garden_path, garden_path, garden_path])
    results = search(step, [3, 4, 5], beam_size=4, n_best=4)
    assert step.shapes[0] == (3, 1)
    for found in results:
        assert len({tuple(each.ids) for each in found}) == len(found) == 4


def test_no_hypothesis_is_found_twice(TableStep: Any, random_table: Any) -> None:
    results = search(
        TableStep([random_table(seed) for seed in range(20)]), [6] * 20, beam_size=7, n_best=7
    )
    for found in results:
        assert len({tuple(each.ids) for each in found}) == len(found) == 7


# --- company -------------------------------------------------------------------------------------


def test_batched_is_the_same_as_one_at_a_time_in_any_order(
    TableStep: Any, random_table: Any
) -> None:
    tables = [random_table(seed, eos_bonus=seed % 3) for seed in range(11)]
    caps = [3 + seed % 5 for seed in range(11)]

    def search_in_order(order: list[int]) -> list[list[Hypothesis]]:
        step = TableStep([tables[b] for b in order])
        return search(step, [caps[b] for b in order], beam_size=3, n_best=2)

    alone = [search_in_order([b])[0] for b in range(11)]
    assert search_in_order(list(range(11))) == alone
    mixed = [4, 9, 0, 7, 3, 10, 1, 8, 2, 6, 5]
    assert search_in_order(mixed) == [alone[b] for b in mixed]


def test_finished_sentences_leave_the_batch(TableStep: Any, random_table: Any) -> None:
    tables = [random_table(seed, eos_bonus=1.0) for seed in range(9)]
    caps = [2 + 2 * seed for seed in range(9)]
    n_steps = []
    for table, cap in zip(tables, caps, strict=True):
        step = TableStep([table])
        search(step, [cap], beam_size=3)
        n_steps.append(len(step.shapes))
    together = TableStep(tables)
    search(together, caps, beam_size=3)
    n_rows = [n for n, _ in together.shapes]
    assert n_rows == [sum(n > t for n in n_steps) for t in range(max(n_steps))]
    assert sum(n_rows) < len(tables) * len(n_rows)


# --- n best, caps, constraints -------------------------------------------------------------------


@PENALTIES
def test_n_best_are_sorted(length_penalty: float, TableStep: Any, random_table: Any) -> None:
    tables = [random_table(seed, eos_bonus=1.0) for seed in range(20)]
    results = search(
        TableStep(tables), [7] * 20, beam_size=6, n_best=5, length_penalty=length_penalty
    )
    for found in results:
        scores = [each.score for each in found]
        assert scores == sorted(scores, reverse=True)
        assert 1 <= len(scores) <= 5


def test_fewer_are_found_where_there_are_no_more(TableStep: Any, random_table: Any) -> None:
    (found,) = search(TableStep([random_table(1)]), [1], beam_size=9, n_best=9)
    assert sorted(each.ids for each in found) == [[], [0], [1], [3]]


@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_each_sentence_has_its_own_cap(beam_size: int, TableStep: Any, random_table: Any) -> None:
    caps = [4, 0, 7, 1]
    tables = [random_table(b, eos_bonus=-99) for b in range(4)]
    results = search(TableStep(tables), caps, beam_size=beam_size)
    assert [len(found[0].ids) for found in results] == caps


@pytest.mark.parametrize("beam_size", [2, 50])
def test_constraint_is_obeyed_at_any_width(
    beam_size: int, TableStep: Any, random_table: Any, search_exhaustively: Any
) -> None:
    def forbid_one(log_probs: Tensor, tokens: Tensor) -> Tensor:
        return log_probs.index_fill(-1, torch.tensor([1]), -torch.inf)

    table = random_table(8)
    (found,) = search(
        TableStep([table]), [4], beam_size=beam_size, n_best=beam_size, constraint=forbid_one
    )
    expected = search_exhaustively(table, 4, 1.0, allowed=[0, 2, 3])
    if beam_size == 50:
        assert_same(found, expected)
    assert all(1 not in each.ids for each in found)
    assert {tuple(each.ids) for each in found} <= {tuple(each.ids) for each in expected}


def test_constraint_sees_each_hypothesis_own_past(TableStep: Any, random_table: Any) -> None:
    """The table adds a mark to its scores that says which past it has in mind."""
    n_checked = 0

    def mark(prefix: tuple[int, ...]) -> float:
        return -sum((token + 1) * 5.0**t for t, token in enumerate(prefix))

    def marked(seed: int) -> Any:
        table = random_table(seed)
        return lambda prefix: [*table(prefix), mark(prefix)]

    def compare(log_probs: Tensor, tokens: Tensor) -> Tensor:
        nonlocal n_checked
        for marks, rows in zip(log_probs[:, :, V].tolist(), tokens.tolist(), strict=True):
            assert marks == [mark(tuple(ids)) for ids in rows]
            n_checked += len(rows)
        return log_probs.index_fill(-1, torch.tensor([V]), -torch.inf)

    tables = [marked(seed) for seed in range(6)]
    search(TableStep(tables), [2, 3, 4, 5, 6, 7], beam_size=3, n_best=3, constraint=compare)
    assert n_checked > 30


def test_ends_at_the_cap_even_if_a_constraint_forbids_eos(TableStep: Any) -> None:
    def never_end(log_probs: Tensor, tokens: Tensor) -> Tensor:
        return log_probs.index_fill(-1, torch.tensor([EOS]), -torch.inf)

    (found,) = search(TableStep([garden_path]), [3], beam_size=2, constraint=never_end)
    assert found
    assert len(found[0].ids) <= 3


def test_a_beam_wider_than_the_vocabulary_is_fine(TableStep: Any, random_table: Any) -> None:
    (found,) = search(TableStep([random_table(2)]), [5], beam_size=30, n_best=30)
    assert len(found) == 30


def test_what_only_one_hypothesis_can_say_is_searched_with_one(
    TableStep: Any, random_table: Any
) -> None:
    """As a forced beginning: W equal hypotheses would cost W times as much, and more to look at."""

    def force(log_probs: Tensor, tokens: Tensor) -> Tensor:
        if tokens.shape[2] >= 5:
            return log_probs
        return log_probs.masked_fill(torch.arange(V) != 1, -torch.inf)

    step = TableStep([random_table(3), random_table(4)])
    results = search(step, [9, 9], beam_size=3, n_best=3, constraint=force)
    assert [width for _, width in step.shapes[:8]] == [1, 1, 1, 1, 1, 1, 3, 3]
    assert all(each.ids[:5] == [1] * 5 for found in results for each in found)
    assert [len(found) for found in results] == [3, 3]


def test_no_sentences_give_no_results(TableStep: Any) -> None:
    none = torch.zeros(0, dtype=torch.int64)
    assert run_search(beam_search(TableStep([]), **IDS, max_tgt_tokens=none, beam_size=3)) == []


def test_numbers_that_are_none_do_not_keep_a_search_going(
    TableStep: Any, random_table: Any
) -> None:
    def spoil(log_probs: Tensor, _: Tensor) -> Tensor:
        return log_probs * torch.nan

    step = TableStep([random_table(1)])
    assert search(step, [3], beam_size=2, constraint=spoil) == [[]]
    assert len(step.shapes) == 4  # 3 tokens and eos

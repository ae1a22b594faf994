"""Beam search: wide enough it tries everything, narrow it is greedy, and stopping early is free."""

from typing import Any

import pytest
import torch

from hubnmt.decoding import Continuation, Hypothesis, beam_search, greedy_search, run_search
from tests.tables import TableStep, random_table, search_exhaustively, search_slowly

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
@pytest.mark.parametrize("seed", range(2))
def test_full_width_ranks_every_target_as_exhaustive_search_does(
    seed: int, length_penalty: float
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
@pytest.mark.parametrize(("beam_size", "n_best"), [(2, 1), (3, 2), (5, 1)])
def test_stopping_early_finds_what_never_stopping_finds(
    beam_size: int, n_best: int, length_penalty: float
) -> None:
    tables = [random_table(seed, eos_bonus=seed % 3) for seed in range(15)]
    caps = [4 + seed % 7 for seed in range(15)]
    options = {"beam_size": beam_size, "length_penalty": length_penalty}
    results = search(TableStep(tables), caps, n_best=n_best, **options)
    for table, cap, found in zip(tables, caps, results, strict=True):
        expected = search_slowly(table, max_tgt_tokens=cap, **options)
        assert_same(found, expected[:n_best])


@pytest.mark.parametrize("length_penalty", [-1.0, 0.0, 1.0])
def test_search_stops_when_nothing_better_can_come(length_penalty: float) -> None:
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
def test_beam_of_one_is_greedy(length_penalty: float) -> None:
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


# --- what a step considered -----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_an_observer_sees_the_search_that_gave_the_result(seed: int) -> None:
    table, beam_size = random_table(seed, eos_bonus=seed % 3), 3
    steps: list[list[Continuation]] = []
    options = {"beam_size": beam_size, "n_best": beam_size, "length_penalty": 0.7}
    (found,) = search(TableStep([table]), [6], observe=steps.append, **options)
    assert (found,) == tuple(search(TableStep([table]), [6], **options))
    beam: list[tuple[int, ...]] = [()]
    finished = {}
    for continuations in steps:
        assert continuations == sorted(continuations, key=lambda each: -each.rank)
        assert len(continuations) <= 2 * beam_size
        paths = [(*beam[each.parent], each.token) for each in continuations]
        for each, path in zip(continuations, paths, strict=True):
            assert each.log_prob == pytest.approx(table(path[:-1])[path[-1]], abs=1e-5)
            expected = sum(table(path[:t])[token] for t, token in enumerate(path))
            assert each.rank == pytest.approx(expected, rel=1e-4)
            if each.status == "finished":
                finished[path[:-1]] = each.rank
        kept = [
            path for each, path in zip(continuations, paths, strict=True) if each.status == "kept"
        ]
        assert len(kept) <= beam_size
        beam = kept
    assert {tuple(each.ids) for each in found} <= set(finished)
    for each in found:
        assert finished[tuple(each.ids)] == pytest.approx(each.log_prob, rel=1e-4)

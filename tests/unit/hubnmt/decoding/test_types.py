"""Protocol: a model and a table can stand behind the same search, and results carry their score."""

import inspect
from typing import Any

import pytest
import torch

from hubnmt.decoding import Hypothesis, beam_search, greedy_search, run_search
from hubnmt.decoding.types import Step, make_hypothesis
from hubnmt.inference.model_step import ModelStep

IDS = {"bos_id": 7, "eos_id": 2}


@pytest.mark.parametrize("method", ["__call__", "reorder", "keep"])
def test_the_model_takes_and_gives_what_the_protocol_says(method: str) -> None:
    promised = inspect.signature(getattr(Step, method))
    assert inspect.signature(getattr(ModelStep, method)) == promised


@pytest.mark.parametrize("method", ["__call__", "reorder", "keep"])
def test_the_table_of_these_tests_does_too(method: str, TableStep: Any) -> None:
    promised = inspect.signature(getattr(Step, method))
    assert inspect.signature(getattr(TableStep, method)) == promised


@pytest.mark.parametrize("length_penalty", [-1.5, 0.0, 1.0, 2.0])
@pytest.mark.parametrize("beam_size", [None, 1, 3])
def test_score_is_log_prob_over_length_with_eos(
    beam_size: int | None, length_penalty: float, TableStep: Any, random_table: Any
) -> None:
    options: dict[str, Any] = {**IDS, "max_tgt_tokens": torch.tensor([5, 6])}
    options["length_penalty"] = length_penalty
    step = TableStep([random_table(1), random_table(2)])
    if beam_size is None:
        results = run_search(greedy_search(step, **options))
    else:
        results = run_search(beam_search(step, **options, beam_size=beam_size, n_best=beam_size))
    found: list[Hypothesis] = [hypothesis for each in results for hypothesis in each]
    assert len(found) == 2 * (beam_size or 1)
    for each in found:
        assert each.score == pytest.approx(each.log_prob / (len(each.ids) + 1) ** length_penalty)


@pytest.mark.parametrize("beam_size", [None, 1, 3])
def test_token_log_probs_are_those_of_the_path_and_sum_to_log_prob(
    beam_size: int | None, TableStep: Any, random_table: Any
) -> None:
    tables = [random_table(seed) for seed in (4, 5, 6)]
    options: dict[str, Any] = {**IDS, "max_tgt_tokens": torch.tensor([5, 2, 6])}
    if beam_size is None:
        results = run_search(greedy_search(TableStep(tables), **options))
    else:
        results = run_search(
            beam_search(TableStep(tables), **options, beam_size=beam_size, n_best=beam_size)
        )
    for table, found in zip(tables, results, strict=True):
        for each in found:
            path = [*each.ids, 2]
            expected = [table(tuple(path[:t]))[token] for t, token in enumerate(path)]
            assert each.token_log_probs == pytest.approx(expected, rel=1e-4, abs=1e-5)
            assert sum(each.token_log_probs) == pytest.approx(each.log_prob)


def test_a_made_hypothesis_adds_up() -> None:
    made = make_hypothesis([5, 3], [-0.5, -1.0, -3.0], 2.0)
    assert made == Hypothesis([5, 3], -4.5, -0.5, (-0.5, -1.0, -3.0))


def test_ids_are_plain_numbers_without_bos_and_eos(TableStep: Any, random_table: Any) -> None:
    step = TableStep([random_table(3)])
    (found,) = run_search(
        beam_search(step, **IDS, max_tgt_tokens=torch.tensor([5]), beam_size=4, n_best=4)
    )
    for hypothesis in found:
        assert not {7, 2} & set(hypothesis.ids)
        assert all(type(token) is int for token in hypothesis.ids)
        assert type(hypothesis.log_prob) is type(hypothesis.score) is float

"""Protocol: a model and a table can stand behind the same search, and results carry their score."""

import inspect
from typing import Any

import pytest
import torch

from hubnmt.decoding import Hypothesis, ModelStep, beam_search, greedy_search
from hubnmt.decoding.protocol import Step

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
        results = greedy_search(step, **options)
    else:
        results = beam_search(step, **options, beam_size=beam_size, n_best=beam_size)
    found: list[Hypothesis] = [hypothesis for each in results for hypothesis in each]
    assert len(found) == 2 * (beam_size or 1)
    for ids, log_prob, score in found:
        assert score == pytest.approx(log_prob / (len(ids) + 1) ** length_penalty)


def test_ids_are_plain_numbers_without_bos_and_eos(TableStep: Any, random_table: Any) -> None:
    step = TableStep([random_table(3)])
    (found,) = beam_search(step, **IDS, max_tgt_tokens=torch.tensor([5]), beam_size=4, n_best=4)
    for hypothesis in found:
        assert not {7, 2} & set(hypothesis.ids)
        assert all(type(token) is int for token in hypothesis.ids)
        assert type(hypothesis.log_prob) is type(hypothesis.score) is float

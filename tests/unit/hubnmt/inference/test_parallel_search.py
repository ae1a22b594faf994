"""Searches at the same time give what they give one after the other."""

from collections.abc import Iterator

import pytest
import torch

from hubnmt.checkpoint.folder import StoredModel
from hubnmt.config import DecodingConfig
from hubnmt.decoding import Search, run_search
from hubnmt.inference.engine import TorchEngine
from hubnmt.inference.parallel_search import search_in_parallel


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def endless(steps: list[int]) -> Search:
    while True:
        steps.append(torch.get_num_threads())
        yield []


def failing() -> Search:
    yield []
    raise ValueError("no memory")


@pytest.mark.parametrize("beam_size", [1, 3])
def test_the_result_is_that_of_one_after_the_other(stored: StoredModel, beam_size: int) -> None:
    engine = TorchEngine(stored.model, stored.tokenizers)
    rows = [[3 + n, 40, 7 * n + 3][: 1 + n % 3] for n in range(8)]
    options = DecodingConfig(beam_size=beam_size, n_best=beam_size, max_new_tokens=6)
    together = run_search(engine.search(rows, options, max_batch_tokens=8))
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    apart = run_search(engine.search(rows, options, max_batch_tokens=8))
    assert [[each.ids for each in row] for row in together] == [
        [each.ids for each in row] for row in apart
    ]


def test_closing_stops_the_searches() -> None:
    steps: list[int] = []
    running = search_in_parallel([endless(steps), endless(steps), endless(steps)])
    next(running)
    running.close()
    n_steps = len(steps)
    assert set(steps) == {1}
    assert len(steps) == n_steps
    assert torch.get_num_threads() == 2


def test_an_error_stops_the_others() -> None:
    steps: list[int] = []
    with pytest.raises(ValueError, match="no memory"):
        run_search(search_in_parallel([failing(), endless(steps)]))

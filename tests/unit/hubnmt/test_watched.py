"""A watched search: its steps, its result and its errors come out, and it never runs on alone."""

import itertools
import threading
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from hubnmt.watched import Watched

Watch = Callable[[Tensor], None]


@pytest.fixture(autouse=True)
def _no_thread_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) - before == set()


def tokens_of(step: int) -> Tensor:
    return torch.full((2, 3, step + 1), step)


def count_to(n: int) -> Callable[[Watch], str]:
    def search(watch: Watch) -> str:
        for step in range(n):
            watch(tokens_of(step))
        return f"{n} steps"

    return search


@pytest.mark.parametrize("n", [0, 1, 50])
def test_every_step_comes_out_in_order_then_the_result(n: int) -> None:
    with Watched(count_to(n)) as search:
        steps = list(search)
    assert all(torch.equal(tokens, tokens_of(t)) for t, tokens in enumerate(steps))
    assert len(steps) == n
    assert search.result == f"{n} steps"


def test_the_result_may_be_read_inside_the_block() -> None:
    with Watched(count_to(3)) as search:
        assert len(list(search)) == 3
        assert search.result == "3 steps"


def test_a_result_of_none_is_a_result() -> None:
    with Watched(lambda watch: watch(tokens_of(0))) as search:
        list(search)
    assert search.result is None


def test_steps_come_while_the_search_runs() -> None:
    """The search waits until its first step was seen: nothing is saved up to the end."""
    was_seen = threading.Event()

    def search_on(watch: Watch) -> bool:
        watch(tokens_of(0))
        seen_in_time = was_seen.wait(20)
        watch(tokens_of(1))
        return seen_in_time

    with Watched(search_on) as search:
        for _ in search:
            was_seen.set()
    assert search.result


class OwnError(Exception):
    pass


@pytest.mark.parametrize("error", [OwnError("at 2"), ValueError("at 2"), SystemExit(2)], ids=repr)
def test_an_error_of_the_search_passes_through_behind_its_steps(error: BaseException) -> None:
    def fail(watch: Watch) -> None:
        watch(tokens_of(0))
        watch(tokens_of(1))
        raise error

    seen = []
    with pytest.raises(type(error), match="2"), Watched(fail) as search:
        seen.extend(search)
    assert len(seen) == 2


def test_an_abandoned_search_ends_at_its_next_step() -> None:
    n_steps = 0
    may_go_on = threading.Event()

    def endless(watch: Watch) -> None:
        nonlocal n_steps
        for step in itertools.count():
            if step == 3:
                may_go_on.wait(20)  # so that it cannot run ahead of the one who looks on
            n_steps += 1
            watch(tokens_of(step))

    with Watched(endless) as search:
        for tokens in search:
            if tokens.shape[2] == 3:
                break
        search._abandoned.set()
        may_go_on.set()
    assert n_steps == 4


def test_a_search_nobody_looked_at_ends_too() -> None:
    def endless(watch: Watch) -> None:
        for step in itertools.count():
            watch(tokens_of(step % 4))

    with Watched(endless):
        pass


def test_an_error_of_the_one_who_looks_on_ends_the_search_and_passes_through() -> None:
    def endless(watch: Watch) -> None:
        for step in itertools.count():
            watch(tokens_of(step % 4))

    def look_on() -> None:
        with Watched(endless) as search:
            for _ in search:
                raise OwnError

    with pytest.raises(OwnError):
        look_on()


def test_searches_side_by_side_keep_apart() -> None:
    with Watched(count_to(4)) as first, Watched(count_to(6)) as second:
        shapes = [
            (None if one is None else one.shape[2], None if other is None else other.shape[2])
            for one, other in itertools.zip_longest(first, second)
        ]
    assert shapes == [(1, 1), (2, 2), (3, 3), (4, 4), (None, 5), (None, 6)]
    assert (first.result, second.result) == ("4 steps", "6 steps")

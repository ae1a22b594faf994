import threading
import time
from collections.abc import Callable, Generator
from typing import Any

import pytest

from hubnmt.decoding import run_search
from hubnmt.ui.services import scheduler as scheduling
from hubnmt.ui.services.scheduler import (
    AbandonedError,
    BusyError,
    Client,
    OverrunError,
    Scheduler,
    assign,
    in_turns,
    model_turn,
)


def make_client(address: str = "a", session: str = "s", **more: Callable[[], bool]) -> Client:
    said = {"is_listening": lambda: True, "has_left": lambda: False} | more
    return Client(address, session, **said)


class Race:
    """Tasks that wait while one holds the turn; `order` tells how they ran afterwards."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.order: list[str] = []
        self.errors: dict[str, Exception] = {}
        self._threads: list[threading.Thread] = []

    def add(self, name: str, client: Client, cost_s: float) -> None:
        def run() -> None:
            try:
                with self.scheduler.turn(self.scheduler.submit(client, cost_s)):
                    self.order.append(name)
            except (AbandonedError, BusyError) as error:
                self.errors[name] = error

        self._threads.append(threading.Thread(target=run, daemon=True))
        self._threads[-1].start()
        n_waiting = len(self._threads) - len(self.errors)
        while self._threads[-1].is_alive() and len(self.scheduler._waiting) < n_waiting:
            time.sleep(0.001)
            n_waiting = min(n_waiting, sum(each.is_alive() for each in self._threads))

    def finish(self) -> list[str]:
        for thread in self._threads:
            thread.join(10)
        return self.order


def hold(race: Race, client: Client | None = None) -> Any:
    return race.scheduler.turn(race.scheduler.submit(client or make_client("holder"), 0.1))


def test_a_short_task_goes_before_long_ones():
    race = Race()
    with hold(race):
        race.add("long", make_client("a"), 2.0)
        race.add("longer", make_client("b"), 3.0)
        race.add("short", make_client("c"), 0.1)
    assert race.finish() == ["short", "long", "longer"]


def test_when_too_many_wait_the_client_with_most_loses_its_longest(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scheduling, "MAX_WAITING", 3)
    race = Race()
    with hold(race):
        for n in range(3):
            race.add(f"hostile {n}", make_client("hostile", str(n)), 1.0 + n)
        race.add("honest", make_client("honest"), 0.1)
        while not race.errors:
            time.sleep(0.01)
        assert race.scheduler.is_full_for("hostile")
        assert not race.scheduler.is_full_for("honest")
    assert race.finish() == ["honest", "hostile 0", "hostile 1"]
    assert list(race.errors) == ["hostile 2"]
    assert "try again in a moment" in str(race.errors["hostile 2"])


def steps(n: int, seconds: float, seen: list[str], name: str) -> Generator[int, None, str]:
    for step in range(n):
        time.sleep(seconds)
        seen.append(name)
        yield step
    return name


def test_a_short_task_interrupts_a_long_one_and_both_finish():
    scheduler, seen = Scheduler(), []
    begun = threading.Event()

    def run_long() -> None:
        assign(scheduler, make_client("hostile"))
        turns = in_turns(steps(20, 0.03, seen, "long"), 2.0)
        next(turns)
        begun.set()
        assert run_search(turns) == "long"

    thread = threading.Thread(target=run_long)
    thread.start()
    begun.wait(10)
    assign(scheduler, make_client("honest"))
    try:
        assert run_search(in_turns(steps(2, 0.01, seen, "short"), 0.1)) == "short"
    finally:
        scheduling._CURRENT.set(None)
    assert seen.count("long") < 20
    thread.join(10)
    assert seen.count("long") == 20


def test_a_running_task_ends_when_its_client_leaves():
    scheduler, seen = Scheduler(), []
    assign(scheduler, make_client(has_left=lambda: len(seen) > 2))
    try:
        with pytest.raises(AbandonedError):
            run_search(in_turns(steps(50, 0.03, seen, "x"), 1.0))
    finally:
        scheduling._CURRENT.set(None)
    assert len(seen) < 6
    with model_turn(0.1):  # the turn is free again
        pass


def busy(seen: list[str]) -> Generator[int, None, str]:
    while True:
        sum(range(100_000))
        seen.append("x")
        yield 0


def test_work_beyond_its_estimate_is_stopped():
    seen: list[str] = []
    assign(Scheduler(max_task_s=0.05), make_client())
    try:
        with pytest.raises(OverrunError, match="split the text or reduce beam_size"):
            run_search(in_turns(busy(seen), 0.01))
    finally:
        scheduling._CURRENT.set(None)
    assert seen

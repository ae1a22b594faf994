import contextvars
import threading
import time
from collections.abc import Generator

import pytest

from hubnmt.decoding.search import run_to_end
from hubnmt.errors import InputError
from hubnmt.ui.services import turns
from hubnmt.ui.services.turns import CLIENT, TURNS, AbandonedError, BusyError, Client, in_turns


def search(n_steps: int, done: list[str], name: str) -> Generator[int, None, str]:
    for n in range(n_steps):
        time.sleep(0.01)
        yield n
    done.append(name)
    return name


def start(address: str, n_steps: int, done: list[str], name: str) -> threading.Thread:
    """Search in a thread, as a request of the client at an address."""

    def run() -> None:
        CLIENT.set(Client(address))
        run_to_end(in_turns(search(n_steps, done, name)))

    thread = threading.Thread(target=contextvars.Context().run, args=(run,))
    thread.start()
    return thread


def test_neither_many_requests_nor_long_ones_keep_other_clients_waiting(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(turns, "SLICE_S", 0.02)
    done: list[str] = []
    long = start("10.0.0.3", 200, done, "long")
    crowd = [start("10.0.0.1", 8, done, f"crowd {n}") for n in range(40)]
    honest = start("10.0.0.2", 8, done, "honest")
    for thread in (honest, *crowd, long):
        thread.join(30)
    assert len(done) == 42
    assert done.index("honest") <= 4
    assert done.index("long") > done.index("honest")


def test_a_request_that_is_cancelled_stops_where_it_is_or_waits():
    is_cancelled = False
    client = Client("10.0.0.1", is_cancelled=lambda: is_cancelled)

    def ask() -> int:
        nonlocal is_cancelled
        CLIENT.set(client)
        searching = in_turns(search(1000, [], "cancelled"))
        n_steps = next(searching)
        is_cancelled = True
        with pytest.raises(AbandonedError):
            next(searching)
        with pytest.raises(AbandonedError), TURNS.turn():
            pytest.fail("it had a turn")
        return n_steps

    assert contextvars.Context().run(ask) < 999
    with TURNS.turn():  # the model is free
        pass


def test_a_search_that_is_closed_gives_its_turn_back():
    searching = in_turns(search(1000, [], "closed"))
    next(searching)
    searching.close()
    with TURNS.turn():
        assert len(TURNS) == 0


def test_a_search_and_the_requests_of_an_address_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(turns, "MAX_SEARCH_S", 0.1)
    with pytest.raises(InputError, match="split the text"):
        run_to_end(in_turns(search(1000, [], "endless")))
    monkeypatch.setattr(turns, "MAX_WAITING", 3)
    done: list[str] = []
    with TURNS.turn():
        threads = [start("10.0.0.1", 1, done, str(n)) for n in range(3)]
        while len(TURNS) < 3:
            time.sleep(0.01)
        CLIENT.set(Client("10.0.0.1"))
        with pytest.raises(BusyError):
            turns.in_turns(search(1, [], "more")).send(None)
    for thread in threads:
        thread.join(10)
    assert sorted(done) == ["0", "1", "2"]

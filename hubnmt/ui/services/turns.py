"""Turns on the model: one search at a time, in a circle of the clients.

A search gives its turn back after `SLICE_S`; next is the client who was served longest ago. So a
client with many requests, or with long ones, takes no more time than each of the others.
Source: round robin over the senders, J. Nagle (1985), RFC 970.
"""

import contextlib
import contextvars
import dataclasses
import itertools
import threading
import time
from collections.abc import Callable, Generator, Iterator
from typing import TypeVar

from hubnmt.errors import HubNMTError, InputError

SLICE_S = 0.2
"""Time after which a search lets others go on: most sentences take less."""

MAX_SEARCH_S = 30.0
"""Time of the model for one search."""

MAX_WAITING = 64
"""Maximum requests of one address that wait for their first turn."""

MAX_WAIT_S = 60.0
"""Maximum time that a request waits for a turn."""

MAX_CLIENTS = 10_000
"""Clients of whom is known when they were served; then all begin anew."""

POLL_S = 0.25
"""How often a waiting request is checked for being cancelled."""

BUSY = "the server is busy; try again in a moment"

Value = TypeVar("Value")
Result = TypeVar("Result")


class BusyError(HubNMTError):
    """There are too many requests."""


class AbandonedError(Exception):
    """The client has left, or asks for something newer."""


@dataclasses.dataclass(frozen=True, slots=True)
class Client:
    """Sender of a request: within an address, the sessions take turns too."""

    address: str = ""
    session: str = ""
    is_cancelled: Callable[[], bool] = lambda: False


_ANYONE = Client()
CLIENT: contextvars.ContextVar[Client] = contextvars.ContextVar("client", default=_ANYONE)
"""The client of the current request."""


@dataclasses.dataclass(eq=False, slots=True)
class _Request:
    client: Client
    number: int
    is_next: threading.Event = dataclasses.field(default_factory=threading.Event)


class Turns:
    """A lock that goes round the clients who wait for it."""

    def __init__(self) -> None:
        """Create a lock that is free."""
        self._lock = threading.Lock()
        self._holder: _Request | None = None
        self._waiting: list[_Request] = []
        self._served: dict[tuple[str, ...], int] = {}
        self._count = itertools.count(1)

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    def number(self) -> int:
        """Return a number for a new request; among those of a session the lowest is first.

        Raises:
            BusyError: if its address has too many requests that wait.
        """
        address = CLIENT.get().address
        with self._lock:
            if sum(other.client.address == address for other in self._waiting) >= MAX_WAITING:
                raise BusyError(BUSY)
            return next(self._count)

    @contextlib.contextmanager
    def turn(self, number: int) -> Iterator[None]:
        """Wait for a turn, and hold it during the block.

        Raises:
            BusyError: if it waited too long.
            AbandonedError: if the request was cancelled.
        """
        own = _Request(CLIENT.get(), number)
        with self._lock:
            self._waiting.append(own)
            self._choose()
        try:
            until = time.monotonic() + MAX_WAIT_S
            while not own.is_next.wait(POLL_S) and not own.client.is_cancelled():
                if time.monotonic() > until:
                    raise BusyError(BUSY)
            if own.client.is_cancelled():
                raise AbandonedError
            yield
        finally:
            with self._lock:
                if self._holder is own:
                    self._holder = None
                else:
                    self._waiting.remove(own)
                self._choose()

    def _choose(self) -> None:
        """Give a free lock to the client who was served longest ago."""
        if self._holder is not None or not self._waiting:
            return
        own = min(self._waiting, key=self._order)
        self._waiting.remove(own)
        self._holder = own
        if len(self._served) > MAX_CLIENTS:
            self._served.clear()
        for key in _keys(own.client):
            self._served[key] = next(self._count)
        own.is_next.set()

    def _order(self, own: _Request) -> tuple[int, ...]:
        return *(self._served.get(key, 0) for key in _keys(own.client)), own.number


def _keys(client: Client) -> tuple[tuple[str, ...], ...]:
    return (client.address,), (client.address, client.session)


_TURNS = Turns()
"""The turns of this process, whose processor all models share."""


def n_waiting() -> int:
    """Return the number of requests that wait."""
    return len(_TURNS)


@contextlib.contextmanager
def model_turn() -> Iterator[None]:
    """Run a block that takes less than about half a second in one turn.

    Raises:
        BusyError, AbandonedError: see `Turns`.
    """
    with _TURNS.turn(_TURNS.number()):
        yield


def in_turns(steps: Generator[Value, None, Result]) -> Generator[Value, None, Result]:
    """Run a search in turns, and yield the last value of each.

    Raises:
        BusyError, AbandonedError: see `Turns`.
        InputError: if the search takes longer than `MAX_SEARCH_S`.
    """
    number, used_s = _TURNS.number(), 0.0
    with contextlib.closing(steps):
        while True:
            with _TURNS.turn(number):
                started = time.monotonic()
                try:
                    value = next(steps)
                    while time.monotonic() - started < SLICE_S:
                        value = next(steps)
                except StopIteration as end:
                    result: Result = end.value
                    return result
                used_s += time.monotonic() - started
            if used_s > MAX_SEARCH_S:
                raise InputError(
                    f"stopped after {MAX_SEARCH_S:.0f} s; split the text, or reduce beam_size or "
                    "max_new_tokens"
                )
            yield value

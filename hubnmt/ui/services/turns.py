"""Turns on the model: one search at a time, in a circle of the clients.

A search gives its turn back after `SLICE_S`, and its client is then the last of those who wait. So
a client with many requests, or with long ones, takes no more time than each of the others.
Source: round robin over the senders, J. Nagle (1985), RFC 970.
"""

import contextlib
import contextvars
import dataclasses
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
"""Maximum requests of one address that wait, so that threads are left for others."""

POLL_S = 0.25
"""How often a waiting request is checked for being cancelled."""

Value = TypeVar("Value")
Result = TypeVar("Result")


class BusyError(HubNMTError):
    """There are too many requests."""


class AbandonedError(Exception):
    """The client has left, or asks for something newer."""


@dataclasses.dataclass(frozen=True, slots=True)
class Client:
    """Sender of a request."""

    address: str = ""
    is_cancelled: Callable[[], bool] = lambda: False


_ANYONE = Client()
CLIENT: contextvars.ContextVar[Client] = contextvars.ContextVar("client", default=_ANYONE)
"""The client of the current request."""


class Turns:
    """A lock that goes round the clients who wait for it; its length is the number of requests."""

    def __init__(self) -> None:
        """Create a lock that is free."""
        self._lock = threading.Lock()
        self._holder: threading.Event | None = None
        self._waiting: dict[str, list[threading.Event]] = {}
        """Requests by the address of their client, whose turn is next first."""

    def __len__(self) -> int:
        """Return how many requests wait."""
        return sum(map(len, self._waiting.values()))

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn, and hold it during the block.

        Raises:
            BusyError: if too many requests of the client wait.
            AbandonedError: if the request was cancelled.
        """
        client, is_next = CLIENT.get(), threading.Event()
        with self._lock:
            own = self._waiting.setdefault(client.address, [])
            if len(own) >= MAX_WAITING:
                raise BusyError("the server is busy; try again in a moment")
            own.append(is_next)
            self._choose()
        try:
            while not is_next.wait(POLL_S) and not client.is_cancelled():
                pass
            if client.is_cancelled():
                raise AbandonedError
            yield
        finally:
            with self._lock:
                if self._holder is is_next:
                    self._holder = None
                else:
                    self._waiting[client.address].remove(is_next)
                self._choose()

    def _choose(self) -> None:
        """Give a free lock to the next client, who is then the last."""
        self._waiting = {address: own for address, own in self._waiting.items() if own}
        if self._holder is None and self._waiting:
            address = next(iter(self._waiting))
            own = self._waiting.pop(address)
            self._holder = own.pop(0)
            self._waiting[address] = own
            self._holder.set()


TURNS = Turns()
"""The turns of this process, whose processor all models share. What does not yield, as a search
does, takes one turn of at most about half a second."""


def in_turns(steps: Generator[Value, None, Result]) -> Generator[Value, None, Result]:
    """Run a search in turns, and yield the last value of each.

    Raises:
        BusyError, AbandonedError: as `Turns.turn`.
        InputError: if the search takes longer than `MAX_SEARCH_S`.
    """
    used_s = 0.0
    with contextlib.closing(steps):
        while True:
            with TURNS.turn():
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

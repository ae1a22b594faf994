"""Open response streams and the clients behind them; see `Middleware`."""

import contextlib
import json
import threading
from collections import Counter
from collections.abc import Iterator, MutableMapping
from typing import Any

from hubnmt.ui.services.scheduler import Client, Scheduler

Scope = MutableMapping[str, Any]

KEPT_EVENTS = 10_000
"""Maximum number of recorded events of each kind."""


class Listeners:
    """Counts the open response streams by session or event."""

    def __init__(self, scheduler: Scheduler) -> None:
        """Create an empty registry."""
        self._scheduler = scheduler
        self._open: Counter[str] = Counter()
        self._cancelled: dict[str, None] = {}
        self._replaceable: dict[str, str] = {}
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def listening(self, key: str) -> Iterator[None]:
        """Count a stream while it is open."""
        self._count(key, 1)
        try:
            yield
        finally:
            self._count(key, -1)

    def _count(self, key: str, change: int) -> None:
        with self._lock:
            self._open[key] += change
            if not self._open[key]:
                del self._open[key]
        self._scheduler.wake()

    def note_cancelled(self, body: bytes) -> None:
        """Record the event that a client cancels."""
        with contextlib.suppress(ValueError, KeyError, TypeError):
            self._cancel(str(json.loads(body)["event_id"]))

    def replace(self, session: str, event: str) -> None:
        """Cancel the session's last event that was started by this method; the newest wins."""
        with self._lock:
            before = self._replaceable.pop(session, None)
            self._replaceable[session] = event
            _drop_oldest(self._replaceable)
        if before is not None:
            self._cancel(before)

    def _cancel(self, event: str) -> None:
        with self._lock:
            self._cancelled[event] = None
            _drop_oldest(self._cancelled)
        self._scheduler.wake()

    def client(self, address: str, session: str, event: str) -> Client:
        """Return the client of a queued event."""
        was_listening = False

        def is_listening() -> bool:
            nonlocal was_listening
            is_open = session in self._open or event in self._open
            was_listening |= is_open
            return is_open

        def has_left() -> bool:
            is_open = is_listening()
            return (was_listening and not is_open) or event in self._cancelled

        return Client(address, session, is_listening, has_left)


def _drop_oldest(events: dict[str, Any]) -> None:
    while len(events) > KEPT_EVENTS:
        del events[next(iter(events))]


def find_client(scope: Scope, session: str | None, event: str | None) -> Client | None:
    """Return the client of a request; None if it did not pass the middleware."""
    if "hubnmt.address" not in scope:
        return None
    address = scope["hubnmt.address"]
    if "hubnmt.has_left" in scope:  # the response uses the request's connection
        return Client(address, session or "", lambda: True, scope["hubnmt.has_left"].is_set)
    listeners: Listeners = scope["hubnmt.listeners"]
    return listeners.client(address, session or "", event or "")

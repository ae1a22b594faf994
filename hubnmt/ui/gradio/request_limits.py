"""Limits on request bodies and on new sessions; see `Middleware`."""

import asyncio
import json
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from hubnmt.ui.services.scheduler import BusyError
from hubnmt.ui.services.tables import MAX_FILE_MIB

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

MAX_BODY_MIB = MAX_FILE_MIB + 1
"""Maximum request body: one file plus form overhead."""

MAX_BODIES_MIB = 64
"""Maximum total size of request bodies being received."""

MAX_CLIENT_BODIES = 32
"""Maximum concurrent request bodies per address."""

BODY_WITHIN_S = 15.0
"""Timeout of a request body, extended by its size over `MIN_BYTES_PER_S`."""

MIN_BYTES_PER_S = 32 * 1024

KEPT_SESSIONS = 500
"""Session states kept by Gradio; the least recently used is evicted."""

FREE_SESSIONS = 2
"""Sessions an address may start per minute without delay; a page needs one."""

SESSIONS_PER_S = 5.0
"""Rate of further sessions, over all addresses."""

MAX_WAITING_SESSIONS = 32

KEPT_STARTS = 10_000
"""Maximum number of recorded session starts."""


class RefusedBodyError(Exception):
    """A request body is too large, too slow, or exceeds the number allowed."""

    def __init__(self, status: int, message: str) -> None:
        """Store the HTTP status of the response."""
        super().__init__(message)
        self.status = status


class DisconnectedError(Exception):
    """The client disconnected before its request body was complete."""


class Bodies:
    """Buffers request bodies, because Gradio has no timeout and leaves partial files."""

    def __init__(self) -> None:
        """Create an empty registry."""
        self._n_bytes = 0
        self._n_of: Counter[str] = Counter()

    async def read(self, address: str, receive: Receive) -> bytes:
        """Read a request body.

        Raises:
            RefusedBodyError: if a limit is exceeded.
            DisconnectedError: if the client disconnects.
        """
        if self._n_of[address] >= MAX_CLIENT_BODIES:
            raise RefusedBodyError(503, str(BusyError()))
        chunks: list[bytes] = []
        self._n_of[address] += 1
        try:
            await self._receive(chunks, receive)
            return b"".join(chunks)
        finally:
            self._n_bytes -= sum(map(len, chunks))
            self._n_of[address] -= 1
            if not self._n_of[address]:
                del self._n_of[address]

    async def _receive(self, chunks: list[bytes], receive: Receive) -> None:
        started, size = time.monotonic(), 0
        while True:
            timeout = started + BODY_WITHIN_S + size / MIN_BYTES_PER_S - time.monotonic()
            try:
                message = await asyncio.wait_for(receive(), max(0.0, timeout))
            except TimeoutError:
                raise RefusedBodyError(
                    408, "timed out while receiving the request; try again"
                ) from None
            if message["type"] == "http.disconnect":
                raise DisconnectedError
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            self._n_bytes += len(chunks[-1])
            if size > MAX_BODY_MIB * 2**20:
                raise RefusedBodyError(
                    413, f"the request is larger than the limit of {MAX_FILE_MIB} MiB"
                )
            if self._n_bytes > MAX_BODIES_MIB * 2**20:
                raise RefusedBodyError(503, str(BusyError()))
            if not message.get("more_body"):
                return


class Sessions:
    """Limits the rate of new sessions per address: each blocks Gradio's event loop for 40 ms."""

    def __init__(self) -> None:
        """Create an empty registry."""
        self._known: OrderedDict[str, None] = OrderedDict()
        self._begun: deque[tuple[float, str]] = deque()
        self._pace = asyncio.Lock()
        self._n_waiting = 0

    async def admit(self, address: str, body: bytes) -> None:
        """Admit a request; delay new sessions of an address beyond its free allowance.

        Raises:
            RefusedBodyError: if too many sessions are waiting.
        """
        session = _read_session(body)
        if session in self._known:
            self._known.move_to_end(session)
            return
        if self._count(address) >= FREE_SESSIONS:
            await self._wait()
        if session:
            self._known[session] = None
            while len(self._known) > KEPT_SESSIONS:
                self._known.popitem(last=False)

    def _count(self, address: str) -> int:
        """Record a new session and return the address's earlier ones within the last minute."""
        now = time.monotonic()
        while self._begun and (now - self._begun[0][0] > 60 or len(self._begun) > KEPT_STARTS):
            self._begun.popleft()
        n_begun = sum(each == address for _, each in self._begun)
        if n_begun < FREE_SESSIONS:
            self._begun.append((now, address))
        return n_begun

    async def _wait(self) -> None:
        if self._n_waiting >= MAX_WAITING_SESSIONS:
            raise RefusedBodyError(503, str(BusyError()))
        self._n_waiting += 1
        try:
            async with self._pace:
                await asyncio.sleep(1 / SESSIONS_PER_S)
        finally:
            self._n_waiting -= 1


def _read_session(body: bytes) -> str:
    try:
        session = json.loads(body)["session_hash"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return session if isinstance(session, str) else ""

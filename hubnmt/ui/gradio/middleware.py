"""ASGI middleware in front of Gradio: request body limits, connection tracking and upload quotas.

Gradio queues all requests in one first-in, first-out queue without per-client limits. This
middleware attaches a `Client` to each request, which `Scheduler` uses. The address is the one
reported by uvicorn, which trusts `X-Forwarded-For` only from proxies in FORWARDED_ALLOW_IPS.
Source: https://asgi.readthedocs.io/en/latest/specs/www.html
"""

import asyncio
import contextlib
import json
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    MutableMapping,
)
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from python_multipart.exceptions import MultipartParseError
from starlette.datastructures import FormData, Headers
from starlette.formparsers import MultiPartException, MultiPartParser

from hubnmt.ui.services.scheduler import BusyError, Client, Scheduler
from hubnmt.ui.services.tables import MAX_FILE_MIB
from hubnmt.ui.services.uploads import UploadQuota

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

PREFIX = "/gradio_api/"

MAX_BODY_MIB = MAX_FILE_MIB + 1
"""Maximum request body: one file plus form overhead."""

MAX_BODIES_MIB = 64
"""Maximum total size of request bodies being received."""

MAX_CLIENT_BODIES = 32
"""Maximum concurrent request bodies per address."""

BODY_WITHIN_S = 15.0
"""Timeout of a request body, extended by its size over `MIN_BYTES_PER_S`."""

MIN_BYTES_PER_S = 32 * 1024

TRIM_EVERY_S = 1.0
"""Minimum interval between checks of the total disk quota."""

KEPT_SESSIONS = 500
"""Session states kept by Gradio; the least recently used is evicted."""

FREE_SESSIONS = 2
"""Sessions an address may start per minute without delay; a page needs one."""

SESSIONS_PER_S = 5.0
"""Rate of further sessions, over all addresses."""

MAX_WAITING_SESSIONS = 32

KEPT_EVENTS = 10_000
"""Maximum number of recorded cancelled events and session starts."""


class Middleware:
    """ASGI middleware that wraps the Gradio app."""

    def __init__(self, app: App, scheduler: Scheduler) -> None:
        """Wrap an application.

        Args:
            app: the Gradio app.
            scheduler: notified when clients connect and disconnect.
        """
        self._app = app
        self._scheduler = scheduler
        self._listeners = Listeners(scheduler)
        self._bodies = Bodies()
        self._sessions = Sessions()
        self._quota = UploadQuota()
        self._trimmed_at = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        route = str(scope["path"]).rpartition(PREFIX)[2] if scope["type"] == "http" else ""
        if scope["type"] != "http" or scope["path"].startswith(f"{PREFIX}mcp"):
            await self._app(scope, receive, send)
        elif scope["method"] == "POST":
            await self._post(route, scope, receive, send)
        elif key := _stream_key(route, scope):
            with self._listeners.listening(key):
                await self._app(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _post(self, route: str, scope: Scope, receive: Receive, send: Send) -> None:
        address = (scope.get("client") or ("",))[0]
        if _is_queued(route) and self._scheduler.is_full_for(address):
            await _refuse(send, 503, str(BusyError()))
            return
        try:
            body = await self._bodies.read(address, receive)
            if _is_queued(route):
                await self._sessions.admit(address, body)
        except RefusedBodyError as error:
            await _refuse(send, error.status, str(error))
            return
        except DisconnectedError:
            return
        if route == "cancel":
            self._listeners.note_cancelled(body)
        await self._trim(scope)
        scope["hubnmt.address"], scope["hubnmt.scheduler"] = address, self._scheduler
        scope["hubnmt.listeners"] = self._listeners
        async with _replayed(body, receive) as (replay, has_left):
            if route.startswith(("run/", "api/")):
                scope["hubnmt.has_left"] = has_left
            if route == "upload":
                if not await _is_one_file(scope, body):
                    await _refuse(send, 400, "upload one file at a time in the form field `files`")
                    return
                send = self._recording_uploads(address, send)
            elif _is_queued(route):
                send = _replacing_queue_full(send)
            await self._app(scope, replay, send)

    def _recording_uploads(self, address: str, send: Send) -> Send:
        """Record the paths of stored files from the response to an upload."""
        status, answer = 0, b""

        async def send_and_record(message: Message) -> None:
            nonlocal status, answer
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                answer += message.get("body", b"")
                if not message.get("more_body") and status == 200:
                    await asyncio.to_thread(self._quota.add, address, json.loads(answer))
            await send(message)

        return send_and_record

    async def _trim(self, scope: Scope) -> None:
        """Enforce the total disk quota."""
        if time.monotonic() - self._trimmed_at < TRIM_EVERY_S:
            return
        self._trimmed_at = time.monotonic()
        blocks = scope["app"].get_blocks()
        kept = {path for block in blocks.blocks.values() for path in _kept_by(block)}
        paths = {str(path) for files in blocks.temp_file_sets for path in files} - kept
        await asyncio.to_thread(self._quota.trim, paths)


async def _is_one_file(scope: Scope, body: bytes) -> bool:
    """Return whether an upload form contains exactly one valid file.

    Gradio leaves unexpected form parts on disk as untracked temporary files.
    """

    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    parser = MultiPartParser(Headers(scope=scope), stream(), max_files=1, max_fields=0)
    try:
        async with _closing(await parser.parse()) as form:
            (file,) = form.getlist("files")
            name = Path(getattr(file, "filename", None) or "..").name
            return len(form.multi_items()) == 1 and name not in ("", ".", "..")
    except (MultiPartException, MultipartParseError, KeyError, ValueError):
        return False


@contextlib.asynccontextmanager
async def _closing(form: FormData) -> AsyncIterator[FormData]:
    try:
        yield form
    finally:
        await form.close()


def _replacing_queue_full(send: Send) -> Send:
    """Replace Gradio's response for a full queue with the page's message."""
    is_replaced = False

    async def send_replaced(message: Message) -> None:
        nonlocal is_replaced
        if message["type"] == "http.response.start" and message["status"] == 503:
            is_replaced = True
            await _refuse(send, 503, str(BusyError()))
        elif not is_replaced:
            await send(message)

    return send_replaced


def _kept_by(block: Any) -> Iterable[str]:
    return map(str, getattr(block, "keep_in_cache", ()))


def _is_queued(route: str) -> bool:
    return route.startswith(("queue/join", "call/", "run/", "api/"))


def _stream_key(route: str, scope: Scope) -> str:
    """Return the session or event whose responses a request streams; empty for others."""
    if route == "queue/data":
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        return next(iter(query.get("session_hash", [])), "")
    return str(route.rpartition("/")[2]) if route.startswith("call/") else ""


# --- connections ---------------------------------------------------------------------------------


class Listeners:
    """Counts the open response streams by session or event."""

    def __init__(self, scheduler: Scheduler) -> None:
        """Create an empty registry."""
        self._scheduler = scheduler
        self._open: Counter[str] = Counter()
        self._cancelled: dict[str, None] = {}
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
            self._cancelled[str(json.loads(body)["event_id"])] = None
        while len(self._cancelled) > KEPT_EVENTS:
            del self._cancelled[next(iter(self._cancelled))]
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


def find_client(scope: Scope, session: str | None, event: str | None) -> Client | None:
    """Return the client of a request; None if it did not pass the middleware."""
    if "hubnmt.address" not in scope:
        return None
    address = scope["hubnmt.address"]
    if "hubnmt.has_left" in scope:  # the response uses the request's connection
        return Client(address, session or "", lambda: True, scope["hubnmt.has_left"].is_set)
    listeners: Listeners = scope["hubnmt.listeners"]
    return listeners.client(address, session or "", event or "")


# --- sessions ------------------------------------------------------------------------------------


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
        while self._begun and (now - self._begun[0][0] > 60 or len(self._begun) > KEPT_EVENTS):
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


# --- bodies --------------------------------------------------------------------------------------


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


@contextlib.asynccontextmanager
async def _replayed(
    body: bytes, receive: Receive
) -> AsyncIterator[tuple[Receive, threading.Event]]:
    """Replay a buffered body, then pass on messages; set the event on disconnect."""
    has_left = threading.Event()
    is_sent = False
    following: asyncio.Queue[Message] = asyncio.Queue()

    async def watch() -> None:
        while True:
            message = await receive()
            following.put_nowait(message)
            if message["type"] == "http.disconnect":
                has_left.set()
                return

    async def replay() -> Message:
        nonlocal is_sent
        if not is_sent:
            is_sent = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await following.get()

    watching = asyncio.create_task(watch())
    try:
        yield replay, has_left
    finally:
        watching.cancel()


async def _refuse(send: Send, status: int, message: str) -> None:
    """Send an error response in Gradio's format."""
    answer = json.dumps({"detail": message, "error": message}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(answer)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": answer})

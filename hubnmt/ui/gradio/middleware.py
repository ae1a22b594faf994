"""ASGI middleware in front of Gradio: complete bodies in time, who listens, disk space of uploads.

Gradio puts every request of the page into one queue, first come, first served, without a limit per
client. Here each request gets its `Client`, which `Scheduler` admits. The address is the one that
uvicorn reports: it trusts `X-Forwarded-For` from the proxies named in FORWARDED_ALLOW_IPS only.
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
"""Largest body: one file, with what its form adds."""

MAX_BODIES_MIB = 64
"""Bodies that are arriving, of all clients together."""

MAX_CLIENT_BODIES = 32
"""Bodies that are arriving, of one address."""

BODY_WITHIN_S = 15.0
"""Time in which a short body must arrive; a longer one must come at `MIN_BYTES_PER_S`."""

MIN_BYTES_PER_S = 32 * 1024

TRIM_EVERY_S = 1.0
"""How often the disk space of all files is looked at, at most."""

KEPT_SESSIONS = 500
"""Sessions that Gradio remembers; the one used longest ago is begun anew."""

FREE_SESSIONS = 2
"""Sessions that an address may begin in a minute without waiting; a page needs one."""

SESSIONS_PER_S = 5.0
"""Sessions beyond that, of all addresses together."""

MAX_WAITING_SESSIONS = 32

KEPT_EVENTS = 10_000
"""Events whose end is remembered."""


class Middleware:
    """Wraps the page's application."""

    def __init__(self, app: App, scheduler: Scheduler) -> None:
        """Wrap an application.

        Args:
            app: Gradio's.
            scheduler: told when clients come and go.
        """
        self._app = app
        self._scheduler = scheduler
        self._listeners = Listeners(scheduler)
        self._bodies = Bodies()
        self._sessions = Sessions()
        self._quota = UploadQuota()
        self._trimmed_at = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
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
                    await _refuse(send, 400, "give one file at a time, in a form field `files`")
                    return
                send = self._noting_uploads(address, send)
            elif _is_queued(route):
                send = _naming_a_full_queue(send)
            await self._app(scope, replay, send)

    def _noting_uploads(self, address: str, send: Send) -> Send:
        """Read the paths of stored files from the answer to an upload."""
        status, answer = 0, b""

        async def noting(message: Message) -> None:
            nonlocal status, answer
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                answer += message.get("body", b"")
                if not message.get("more_body") and status == 200:
                    await asyncio.to_thread(self._quota.add, address, json.loads(answer))
            await send(message)

        return noting

    async def _trim(self, scope: Scope) -> None:
        """Keep all files that this page stored within their limit."""
        if time.monotonic() - self._trimmed_at < TRIM_EVERY_S:
            return
        self._trimmed_at = time.monotonic()
        blocks = scope["app"].get_blocks()
        kept = {path for block in blocks.blocks.values() for path in _kept_by(block)}
        paths = {str(path) for files in blocks.temp_file_sets for path in files} - kept
        await asyncio.to_thread(self._quota.trim, paths)


async def _is_one_file(scope: Scope, body: bytes) -> bool:
    """Return whether Gradio will store all of an upload where it is found again.

    What it does not expect in a form stays on the disk as a temporary file, of which nobody knows.
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


def _naming_a_full_queue(send: Send) -> Send:
    """Answer with our sentence where Gradio says that its queue is full."""
    is_replaced = False

    async def naming(message: Message) -> None:
        nonlocal is_replaced
        if message["type"] == "http.response.start" and message["status"] == 503:
            is_replaced = True
            await _refuse(send, 503, str(BusyError()))
        elif not is_replaced:
            await send(message)

    return naming


def _kept_by(block: Any) -> Iterable[str]:
    return map(str, getattr(block, "keep_in_cache", ()))


def _is_queued(route: str) -> bool:
    return route.startswith(("queue/join", "call/", "run/", "api/"))


def _stream_key(route: str, scope: Scope) -> str:
    """Return the session or event whose answers a connection carries; empty for others."""
    if route == "queue/data":
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        return next(iter(query.get("session_hash", [])), "")
    return str(route.rpartition("/")[2]) if route.startswith("call/") else ""


# --- who listens ---------------------------------------------------------------------------------


class Listeners:
    """The open connections that carry answers, by session or event."""

    def __init__(self, scheduler: Scheduler) -> None:
        """Begin with none."""
        self._scheduler = scheduler
        self._open: Counter[str] = Counter()
        self._cancelled: dict[str, None] = {}
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def listening(self, key: str) -> Iterator[None]:
        """Count a connection while it is open."""
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
        """Read which event a client cancels."""
        with contextlib.suppress(ValueError, KeyError, TypeError):
            self._cancelled[str(json.loads(body)["event_id"])] = None
        while len(self._cancelled) > KEPT_EVENTS:
            del self._cancelled[next(iter(self._cancelled))]
        self._scheduler.wake()

    def client(self, address: str, session: str, event: str) -> Client:
        """Describe who sent an event to the queue."""
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
    """Describe who asks; None where the middleware was not asked."""
    if "hubnmt.address" not in scope:
        return None
    address = scope["hubnmt.address"]
    if "hubnmt.has_left" in scope:  # the answer comes on the connection of the request
        return Client(address, session or "", lambda: True, scope["hubnmt.has_left"].is_set)
    listeners: Listeners = scope["hubnmt.listeners"]
    return listeners.client(address, session or "", event or "")


# --- sessions ------------------------------------------------------------------------------------


class Sessions:
    """Limits how fast an address begins sessions: each costs Gradio 40 ms of its event loop."""

    def __init__(self) -> None:
        """Begin with none."""
        self._known: OrderedDict[str, None] = OrderedDict()
        self._begun: deque[tuple[float, str]] = deque()
        self._pace = asyncio.Lock()
        self._n_waiting = 0

    async def admit(self, address: str, body: bytes) -> None:
        """Let a known session pass, and a new one at once or at the pace of all that are many.

        Raises:
            RefusedBodyError: if too many wait.
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
        """Note a new session, and count the earlier ones of its address in the last minute."""
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
    """A body is too large, too slow, or one too many."""

    def __init__(self, status: int, message: str) -> None:
        """Bind the HTTP status to say it with."""
        super().__init__(message)
        self.status = status


class DisconnectedError(Exception):
    """The client left before its body was complete."""


class Bodies:
    """Reads bodies whole before Gradio does, which has no limit of time and leaves torn files."""

    def __init__(self) -> None:
        """Begin with none."""
        self._n_bytes = 0
        self._n_of: Counter[str] = Counter()

    async def read(self, address: str, receive: Receive) -> bytes:
        """Read a body.

        Raises:
            RefusedBodyError: with status and sentence.
            DisconnectedError: if it will never be complete.
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
            left = started + BODY_WITHIN_S + size / MIN_BYTES_PER_S - time.monotonic()
            try:
                message = await asyncio.wait_for(receive(), max(0.0, left))
            except TimeoutError:
                raise RefusedBodyError(408, "the request came too slowly; try again") from None
            if message["type"] == "http.disconnect":
                raise DisconnectedError
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            self._n_bytes += len(chunks[-1])
            if size > MAX_BODY_MIB * 2**20:
                raise RefusedBodyError(413, f"a request may have {MAX_FILE_MIB} MiB")
            if self._n_bytes > MAX_BODIES_MIB * 2**20:
                raise RefusedBodyError(503, str(BusyError()))
            if not message.get("more_body"):
                return


@contextlib.asynccontextmanager
async def _replayed(
    body: bytes, receive: Receive
) -> AsyncIterator[tuple[Receive, threading.Event]]:
    """Give a body again, and then what happens on the connection; note when it is closed."""
    has_left = threading.Event()
    is_given = False
    following: asyncio.Queue[Message] = asyncio.Queue()

    async def watch() -> None:
        while True:
            message = await receive()
            following.put_nowait(message)
            if message["type"] == "http.disconnect":
                has_left.set()
                return

    async def replay() -> Message:
        nonlocal is_given
        if not is_given:
            is_given = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await following.get()

    watching = asyncio.create_task(watch())
    try:
        yield replay, has_left
    finally:
        watching.cancel()


async def _refuse(send: Send, status: int, message: str) -> None:
    """Answer as Gradio's own errors do, with the sentence that the page would show."""
    answer = json.dumps({"detail": message, "error": message}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(answer)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": answer})

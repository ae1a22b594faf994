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
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
)
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from python_multipart.exceptions import MultipartParseError
from starlette.datastructures import FormData, Headers
from starlette.formparsers import MultiPartException, MultiPartParser

from hubnmt.ui.gradio.connections import Listeners, Scope
from hubnmt.ui.gradio.request_limits import (
    Bodies,
    DisconnectedError,
    Message,
    Receive,
    RefusedBodyError,
    Sessions,
)
from hubnmt.ui.services.scheduler import BusyError, Scheduler
from hubnmt.ui.services.uploads import UploadQuota

Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

PREFIX = "/gradio_api/"

PLAIN = ("/translate", "/detect")
"""Routes outside Gradio's queue, see `libretranslate`."""

TRIM_EVERY_S = 1.0
"""Minimum interval between checks of the total disk quota."""


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
        is_model = _is_queued(route) or route in PLAIN
        if is_model and self._scheduler.is_full_for(address):
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
            if route.startswith(("run/", "api/")) or route in PLAIN:
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

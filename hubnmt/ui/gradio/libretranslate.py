"""HTTP routes of LibreTranslate's API beside Gradio's own."""

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hubnmt.errors import HubNMTError, InputError
from hubnmt.ui.gradio.events import on_gpu
from hubnmt.ui.services.libretranslate import LibreTranslate
from hubnmt.ui.services.text_format import public_message
from hubnmt.ui.services.translate import Handlers
from hubnmt.ui.services.turns import CLIENT, AbandonedError, BusyError, Client

MAX_BODY_KIB = 256
"""Maximum size of a request: the longest text, every character written as an escape of JSON."""

MAX_THREADS = 64
"""Threads of the requests, most of which wait for a turn."""

ASK_EVERY_S = 0.5
"""How often it is asked whether the client is still there."""

Answer = Callable[[dict[str, Any]], Any]
"""Maps the fields of a request to a JSON value."""


def libretranslate_routes(handlers: Handlers) -> list[Route]:
    """Return the routes `/translate`, `/detect`, `/languages` and `/health`."""
    endpoints = LibreTranslate(handlers)
    threads = anyio.CapacityLimiter(MAX_THREADS)

    def posted(answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        async def respond(request: Request) -> Response:
            return await _respond(request, answer, threads)

        return respond

    async def languages(_: Request) -> Response:
        return _to_response(endpoints.languages())

    async def health(_: Request) -> Response:
        return _to_response({"status": "ok"})

    return [
        Route("/translate", posted(on_gpu(endpoints.translate)), methods=["POST"]),
        Route("/detect", posted(endpoints.detect), methods=["POST"]),
        Route("/languages", languages),
        Route("/health", health),
    ]


def _to_response(value: Any, status: int = 200) -> Response:
    return JSONResponse(value, status, {"Access-Control-Allow-Origin": "*"})


async def _respond(request: Request, answer: Answer, threads: anyio.CapacityLimiter) -> Response:
    """Answer a request in turns of its client."""
    try:
        fields = await _read_fields(request)
        async with _disconnection(request) as has_left:
            CLIENT.set(Client(request.client.host if request.client else "", "", has_left.is_set))
            found = await anyio.to_thread.run_sync(answer, fields, limiter=threads)
    except HubNMTError as error:
        status = 503 if isinstance(error, BusyError) else 400
        return _to_response({"error": public_message(error)}, status)
    except AbandonedError:
        return _to_response({"error": "the request was cancelled"}, 499)
    return _to_response(found)


@contextlib.asynccontextmanager
async def _disconnection(request: Request) -> AsyncIterator[threading.Event]:
    """Give an event that is set when the client leaves."""
    has_left = threading.Event()

    async def watch() -> None:
        while not await request.is_disconnected():
            await asyncio.sleep(ASK_EVERY_S)
        has_left.set()

    watching = asyncio.create_task(watch())
    try:
        yield has_left
    finally:
        watching.cancel()


async def _read_fields(request: Request) -> dict[str, Any]:
    """Return the fields of a query, and of a body in JSON or as a form.

    Raises:
        InputError: if the body is neither, or too large.
    """
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_KIB * 1024:
            raise InputError(f"the request is larger than {MAX_BODY_KIB} KiB")
    fields: dict[str, Any] = dict(request.query_params)
    try:
        # Of any content type: with that of JSON, a page of another site would have to ask first,
        # which Gradio does not allow on localhost.
        if body.lstrip().startswith((b"{", b"[")):
            return fields | dict(json.loads(body))
        return fields | dict(parse_qsl(body.decode()))
    except (ValueError, TypeError, RecursionError):
        raise InputError("the body must be a JSON object or a form") from None

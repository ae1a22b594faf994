"""HTTP routes of LibreTranslate's API beside Gradio's own."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from hubnmt.errors import HubNMTError, InputError
from hubnmt.ui.gradio.connections import find_client
from hubnmt.ui.gradio.events import public_message
from hubnmt.ui.gradio.zero_gpu import on_gpu
from hubnmt.ui.services.libretranslate import LibreTranslate
from hubnmt.ui.services.scheduler import MAX_WAITING, AbandonedError, BusyError, assign
from hubnmt.ui.services.translate import Handlers

Answer = Callable[[dict[str, Any]], Any]
"""Maps the fields of a request to a JSON value."""


def libretranslate_routes(handlers: Handlers) -> list[Route]:
    """Return the routes `/translate`, `/detect`, `/languages` and `/health`."""
    endpoints = LibreTranslate(handlers)
    # Threads wait in `Scheduler`; Starlette's own also serve the page's files.
    threads = ThreadPoolExecutor(2 * MAX_WAITING)
    return [
        Route("/translate", _posted(on_gpu(endpoints.translate), threads), methods=["POST"]),
        Route("/detect", _posted(endpoints.detect, threads), methods=["POST"]),
        Route("/languages", lambda _: JSONResponse(endpoints.languages())),
        Route("/health", lambda _: JSONResponse({"status": "ok"})),
    ]


def _posted(
    answer: Answer, threads: ThreadPoolExecutor
) -> Callable[[Request], Awaitable[JSONResponse]]:
    """Return a route that answers a request within the limits of its client."""

    async def respond(request: Request) -> JSONResponse:
        context = contextvars.copy_context()
        client = find_client(request.scope, None, None)
        if client is not None:
            context.run(assign, request.scope["hubnmt.scheduler"], client)
        try:
            fields = await _read_fields(request)
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(threads, context.run, answer, fields)
        except HubNMTError as error:
            status = 503 if isinstance(error, BusyError) else 400
            return JSONResponse({"error": public_message(error)}, status)
        except AbandonedError:
            return JSONResponse({"error": "the request was cancelled"}, 499)
        return JSONResponse(found)

    return respond


async def _read_fields(request: Request) -> dict[str, Any]:
    """Return the fields of a query, and of a body in JSON or as a form.

    Raises:
        InputError: if the body is neither.
    """
    fields: dict[str, Any] = dict(request.query_params)
    try:
        if request.headers.get("content-type", "").startswith("application/json"):
            return fields | dict(await request.json())
        async with request.form(max_files=0) as form:
            return fields | dict(form)
    except (ValueError, TypeError, RecursionError, HTTPException):
        raise InputError("the body must be a JSON object or a form") from None

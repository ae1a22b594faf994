"""The HTTP API of LibreTranslate for plain text, beside Gradio's own.

Source: https://docs.libretranslate.com/api/operations/translate/
"""

import asyncio
import contextlib
import dataclasses
import json
import threading
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import parse_qsl

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hubnmt.errors import HubNMTError, InputError, ModelNotFoundError
from hubnmt.text.detection import Detected, detect_languages
from hubnmt.text.languages import language_name, main_tag
from hubnmt.ui.services import limits
from hubnmt.ui.services.catalogue import find_model, list_pairs
from hubnmt.ui.services.text_format import public_message
from hubnmt.ui.services.translate import Handlers
from hubnmt.ui.services.turns import CLIENT, AbandonedError, BusyError, Client

MAX_TEXTS = 500
"""Maximum number of texts in a request."""

MAX_BODY_KIB = 256
"""Maximum size of a request: the longest text, every character written as an escape of JSON."""

MAX_THREADS = 64
"""Threads of the requests, most of which wait for a turn."""

POLL_S = 0.5
"""How often it is checked whether the client is still there."""


def libretranslate_routes(handlers: Handlers) -> list[Route]:
    """Return the routes `/translate`, `/detect`, `/languages` and `/health`."""
    api = LibreTranslate(handlers)
    threads = anyio.CapacityLimiter(MAX_THREADS)

    async def respond(request: Request) -> Response:
        """Answer a request in turns of its client."""
        handler = api.translate if request.url.path.endswith("/translate") else api.detect
        try:
            fields = await _read_fields(request)
            async with _disconnection(request) as has_left:
                address = request.client.host if request.client else ""
                CLIENT.set(Client(address, "", has_left.is_set))
                found = await anyio.to_thread.run_sync(handler, fields, limiter=threads)
        except HubNMTError as error:
            status = 503 if isinstance(error, BusyError) else 400
            return _to_response({"error": public_message(error)}, status)
        except AbandonedError:
            return _to_response({"error": "the request was cancelled"}, 499)
        return _to_response(found)

    return [
        Route("/translate", respond, methods=["POST"]),
        Route("/detect", respond, methods=["POST"]),
        Route("/languages", lambda _: _to_response(api.languages())),
        Route("/health", lambda _: _to_response({"status": "ok"})),
    ]


@dataclasses.dataclass(frozen=True, slots=True)
class LibreTranslate:
    """Maps the fields of a request to the JSON of its response."""

    handlers: Handlers

    def languages(self) -> list[dict[str, Any]]:
        """List the languages and those each can be translated to."""
        pairs = self._pairs()
        codes = dict.fromkeys(code for pair in pairs for code in pair)
        return [
            {
                "code": code,
                "name": language_name(code),
                "targets": [tgt for src, tgt in pairs if src == code],
            }
            for code in codes
        ]

    def detect(self, fields: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Detect the language of `q`."""
        return [_to_json(found) for found in detect_languages("\n".join(_read_texts(fields)))]

    def translate(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Translate `q`, a text or a list of texts, from `source` to `target`.

        Raises:
            HubNMTError: if a field is missing or wrong, or a text is too long.
        """
        texts = _read_texts(fields)
        if (fields.get("format") or "text") != "text":
            raise InputError("format must be text")
        source, target = fields.get("source") or "auto", fields.get("target") or ""
        detected = [self._detect(text) for text in texts] if source == "auto" else []
        sources = [found.language for found in detected] or [source] * len(texts)
        models = [find_model(self.handlers.registry, src, target) for src in sources]
        response: dict[str, list[Any]] = {
            "translatedText": [
                self.handlers.translate_text(text, model).translation.text if text.strip() else text
                for text, model in zip(texts, models, strict=True)
            ]
        }
        if detected:
            response["detectedLanguage"] = [_to_json(found) for found in detected]
        if isinstance(fields["q"], list):
            return response
        return {name: values[0] for name, values in response.items()}

    def _pairs(self) -> list[tuple[str, str]]:
        pairs = list_pairs(self.handlers.registry).values()
        return list(dict.fromkeys((main_tag(src), main_tag(tgt)) for src, tgt in pairs if src))

    def _detect(self, text: str) -> Detected:
        """Return the most probable source language that a model of the page translates."""
        known = {src for src, _ in self._pairs()}
        for found in detect_languages(text):
            if found.language in known:
                return found
        raise ModelNotFoundError(
            f"the language of the text was not detected as one of: {', '.join(sorted(known))}; "
            "give its code as source"
        )


def _to_json(found: Detected) -> dict[str, Any]:
    return {"language": found.language, "confidence": round(100 * found.probability, 1)}


def _to_response(value: Any, status: int = 200) -> Response:
    return JSONResponse(value, status, {"Access-Control-Allow-Origin": "*"})


def _read_texts(fields: Mapping[str, Any]) -> list[str]:
    q = fields.get("q")
    texts = q if isinstance(q, list) else [q or ""]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise InputError("q must be a text or a list of texts")
    if len(texts) > MAX_TEXTS:
        raise InputError(f"the request has more than {MAX_TEXTS} texts; split it")
    limits.check_text("\n".join(texts))
    return texts


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


@contextlib.asynccontextmanager
async def _disconnection(request: Request) -> AsyncIterator[threading.Event]:
    """Give an event that is set when the client leaves."""
    has_left = threading.Event()

    async def watch() -> None:
        while not await request.is_disconnected():
            await asyncio.sleep(POLL_S)
        has_left.set()

    watching = asyncio.create_task(watch())
    try:
        yield has_left
    finally:
        watching.cancel()

"""The HTTP API of LibreTranslate for plain text, beside Gradio's own.

Source: https://docs.libretranslate.com/api/operations/translate/
"""

import json
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl

import anyio.to_thread
from pydantic import BaseModel, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hubnmt.errors import HubNMTError, InputError, ModelNotFoundError
from hubnmt.text.languages import Detected, detect_languages, language_name
from hubnmt.ui.services import limits
from hubnmt.ui.services.registry import ModelRegistry, find_model, list_pairs
from hubnmt.ui.services.text_format import public_message
from hubnmt.ui.services.translate import translate_text
from hubnmt.ui.services.turns import CLIENT, MAX_WAITING, BusyError, Client

MAX_TEXTS = 500
"""Maximum number of texts in a request."""

MAX_BODY_KIB = 256
"""Maximum size of a request: the longest text, every character written as an escape of JSON."""


class Query(BaseModel):
    """A request for a translation."""

    q: str | Annotated[list[str], Field(max_length=MAX_TEXTS)]
    source: str = "auto"
    target: str
    format: Literal["text"] = "text"


def libretranslate_routes(registry: ModelRegistry) -> list[Route]:
    """Return the routes `/translate`, `/languages` and `/health`."""
    # Most threads wait for a turn; some are left for other clients than one with many requests.
    threads = anyio.CapacityLimiter(2 * MAX_WAITING)

    async def respond(request: Request) -> Response:
        """Translate in turns of the client."""
        try:
            query = await _read_query(request)
            CLIENT.set(Client(request.client.host if request.client else ""))
            found = await anyio.to_thread.run_sync(translate, registry, query, limiter=threads)
        except HubNMTError as error:
            status = 503 if isinstance(error, BusyError) else 400
            return _to_response({"error": public_message(error)}, status)
        return _to_response(found)

    return [
        Route("/translate", respond, methods=["POST"]),
        Route("/languages", lambda _: _to_response(languages(registry))),
        Route("/health", lambda _: _to_response({"status": "ok"})),
    ]


async def _read_query(request: Request) -> Query:
    """Read the fields of a query, and of a body in JSON or as a form."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_KIB * 1024:
            raise InputError(f"the request is larger than {MAX_BODY_KIB} KiB")
    # Of any content type: with that of JSON, a page of another site would have to ask first, which
    # Gradio does not allow on localhost.
    is_json = body.lstrip().startswith((b"{", b"["))
    try:
        fields = dict(json.loads(body) if is_json else parse_qsl(body.decode()))
        return Query.model_validate({**request.query_params, **fields})
    except ValidationError as error:
        reasons = (f"{each['loc'][0]}: {each['msg']}" for each in error.errors())
        raise InputError("; ".join(reasons)) from None
    except (ValueError, TypeError, RecursionError):
        raise InputError("the body must be a JSON object or a form") from None


def translate(registry: ModelRegistry, query: Query) -> dict[str, Any]:
    """Translate a text or a list of texts."""
    texts = [query.q] if isinstance(query.q, str) else query.q
    limits.check_text("\n".join(texts))
    detected = [_detect(registry, text) for text in texts] if query.source == "auto" else []
    sources = [found.language for found in detected] or [query.source] * len(texts)
    models = [find_model(registry, source, query.target) for source in sources]
    response: dict[str, list[Any]] = {
        "translatedText": [
            translate_text(registry, text, model).translation.text if text.strip() else text
            for text, model in zip(texts, models, strict=True)
        ]
    }
    if detected:
        response["detectedLanguage"] = [
            {"language": found.language, "confidence": round(100 * found.probability, 1)}
            for found in detected
        ]
    if isinstance(query.q, list):
        return response
    return {name: values[0] for name, values in response.items()}


def languages(registry: ModelRegistry) -> list[dict[str, Any]]:
    """List the languages and those each can be translated to."""
    pairs = dict.fromkeys(list_pairs(registry).values())
    codes = dict.fromkeys(code for pair in pairs for code in pair)
    return [
        {
            "code": code,
            "name": language_name(code),
            "targets": [tgt for src, tgt in pairs if src == code],
        }
        for code in codes
    ]


def _detect(registry: ModelRegistry, text: str) -> Detected:
    """Return the most probable source language that a model of the page translates."""
    known = {src for src, _ in list_pairs(registry).values()}
    for found in detect_languages(text):
        if found.language in known:
            return found
    raise ModelNotFoundError(
        f"the language of the text was not detected as one of: {', '.join(sorted(known))}; "
        "give its code as source"
    )


def _to_response(value: Any, status: int = 200) -> Response:
    return JSONResponse(value, status, {"Access-Control-Allow-Origin": "*"})

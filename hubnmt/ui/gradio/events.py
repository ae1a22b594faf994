"""What every tab is made of: static drawings, lines of HTML, kinds of events, errors as sentences.

Takes names and functions, gives components and functions for Gradio. Must not know what any tab
does.

Two Gradio facts that shape this file (6.31): a `gr.HTML` template is compiled twice, so a visitor's
text inside `{{...}}` would run as script; templates here are constant, and texts travel as values.
A listener that is a generator is closed when its event is cancelled, which frees the worker.
"""

import contextvars
import functools
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.context import LocalContext

from hubnmt.errors import HubNMTError
from hubnmt.ui.gradio.middleware import find_client
from hubnmt.ui.gradio.zero_gpu import is_lent, on_gpu
from hubnmt.ui.html import attention
from hubnmt.ui.services.scheduler import AbandonedError, assign

ASSETS = Path(__file__).parents[1] / "assets"

HEAVY: dict[str, Any] = {"concurrency_id": "model", "concurrency_limit": None}
"""Whatever runs a model. Gradio's queue is first come, first served, so nothing waits there: the
handler begins at once and waits for its turn in `Scheduler`, in fair shares per client."""

LONG: dict[str, Any] = {"concurrency_id": "files", "concurrency_limit": None}
"""A file, which takes a turn for each of its chunks."""

OPENS: dict[str, Any] = {"concurrency_id": "opening", "concurrency_limit": None}
"""Opening a model: of the Hub only so many at a time, see `Handlers`, and outside a turn."""

ASKS: dict[str, Any] = {"concurrency_id": "hub", "concurrency_limit": 1}
"""The Hub is asked one thing at a time, and nobody waits for it but who asked."""

CACHED_MODEL = re.compile(r"[^\s'\"]*models--([\w.-]+?)--([\w.-]+)/(?:snapshots|blobs)/[0-9a-f]+")
"""A folder of the Hub's cache, which is this server's own affair."""

MAX_MESSAGE_CHARS = 600
"""Longest message of an error; it may repeat what a client sent."""

QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
"""Events of the page itself; the named endpoints are typed functions of their own."""

RUNS = HEAVY | QUIET


def draw_static(name: str, elem_id: str | None = None) -> gr.HTML:
    """Place `assets/NAME.html`, which draws itself with `assets/NAME-*.js` and `NAME.js`."""
    html = (ASSETS / f"{name}.html").read_text("utf-8")
    script = "\n".join(path.read_text("utf-8") for path in sorted(ASSETS.glob(f"{name}*.js")))
    return gr.HTML(html_template=html, js_on_load=script, apply_default_css=False, elem_id=elem_id)


def line(value: str = "", elem_id: str | None = None) -> gr.HTML:
    """Make a place for one of the pieces of HTML that `figures` and `views` make."""
    template = '<div class="slot">${value}</div>'
    return gr.HTML(
        value,
        html_template=template,
        js_on_load=None,
        apply_default_css=False,
        elem_id=elem_id,
    )


def heading(title: str, lead: str) -> gr.HTML:
    """Place a constant heading with a sentence of explanation."""
    template = f'<div class="lead"><h2>{title}</h2><p>{lead}</p></div>'
    return gr.HTML(html_template=template, js_on_load=None, apply_default_css=False)


def said_in_page(
    event: Callable[..., tuple[Any, ...]], blank: tuple[Any, ...]
) -> Callable[..., Any]:
    """Show a refused request as a notice, the event's first output, and `blank` in the others."""

    def said(*values: Any) -> tuple[Any, ...]:
        try:
            return event(*values)
        except HubNMTError as error:
            return error_notice(error), *blank

    return as_client(said)


def on_model(listener: Callable[..., Any]) -> Callable[..., Any]:
    """Let a listener run a model: on the GPU where one is lent, else as tasks of whoever asks.

    A lent GPU has a scheduler and quotas of its own, and runs in another process.
    """
    return on_gpu(listener) if is_lent() else as_client(listener)


def as_client(listener: Callable[..., Any]) -> Callable[..., Any]:
    """Let what a listener runs be the tasks of whoever asks."""
    if not inspect.isgeneratorfunction(listener):

        @functools.wraps(listener)
        def run(*values: Any) -> Any:
            try:
                return _assigned().run(listener, *values)
            except AbandonedError:
                raise gr.Error("nobody waits for this answer", print_exception=False) from None

        return run

    @functools.wraps(listener)
    def steps(*values: Any) -> Iterator[Any]:
        context = _assigned()  # Gradio runs each step in a thread and a context of its own
        iterator = listener(*values)
        try:
            while True:
                yield context.run(next, iterator)
        except (StopIteration, AbandonedError):
            return
        finally:
            context.run(iterator.close)

    return steps


def _assigned() -> contextvars.Context:
    """Return a copy of this context in which tasks belong to the client of the request."""
    context = contextvars.copy_context()
    asked = LocalContext.request.get(None)
    scope = getattr(getattr(asked, "request", None), "scope", {})
    session, event = getattr(asked, "session_hash", None), LocalContext.event_id.get(None)
    client = find_client(scope, session, event)
    if client is not None:
        context.run(assign, scope["hubnmt.scheduler"], client)
    return context


def error_notice(error: HubNMTError) -> str:
    """Say in the page what was wrong."""
    return attention.notice([public_message(error)], "error")


def public_message(error: HubNMTError) -> str:
    """Return what an error says, in characters that can be sent, without this server's folders."""
    said = str(error)
    if len(said) > MAX_MESSAGE_CHARS:  # first: the search below takes the square of the length
        said = f"{said[:MAX_MESSAGE_CHARS]} ..."
    said = CACHED_MODEL.sub(r"\1/\2", said)
    return said.encode("utf-8", "backslashreplace").decode("utf-8")


def said_to_client(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """Send a refused request to the client of a named endpoint as its error message."""
    if inspect.isgeneratorfunction(endpoint):

        @functools.wraps(endpoint)
        def told(*values: Any) -> Iterator[Any]:
            try:
                yield from endpoint(*values)
            except HubNMTError as error:
                raise gr.Error(public_message(error), print_exception=False) from None

        return told

    @functools.wraps(endpoint)
    def said(*values: Any) -> Any:
        try:
            return endpoint(*values)
        except HubNMTError as error:
            raise gr.Error(public_message(error), print_exception=False) from None

    return said

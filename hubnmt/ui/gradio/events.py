"""Shared building blocks of the tabs: static components, event settings and error handling.

Two properties of Gradio 6.31 matter here. A `gr.HTML` template is compiled twice, so user text
inside `{{...}}` would run as script; therefore templates are constant and texts are passed as
values. A generator listener is closed when its event is cancelled, which frees the worker.
"""

import contextlib
import contextvars
import functools
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.context import LocalContext

from hubnmt.errors import HubNMTError
from hubnmt.ui.html.facts import notice
from hubnmt.ui.services.text_format import public_message
from hubnmt.ui.services.turns import CLIENT, AbandonedError, Client

ASSETS = Path(__file__).parents[1] / "assets"

HEAVY: dict[str, Any] = {"concurrency_id": "model", "concurrency_limit": None}
"""Events that run a model. They leave Gradio's queue at once, which serves the first before the
last, and take turns by client: see `hubnmt.ui.services.turns`."""

LONG: dict[str, Any] = {"concurrency_id": "files", "concurrency_limit": 16}
"""Events that translate a file; Gradio shows the others their place in the queue."""

OPENS: dict[str, Any] = {"concurrency_id": "opening", "concurrency_limit": 16}
"""Events that load a model, most of which wait."""

QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
"""Settings of events that are not part of the public API."""

RUNS = HEAVY | QUIET

MAX_SESSIONS = 500
"""Sessions of which Gradio keeps the state, and the page the newest request."""


def draw_static(name: str, elem_id: str | None = None, value: Any = None) -> gr.HTML:
    """Create a component from `NAME.html` and the scripts `NAME-*.js` and `NAME.js` in `assets`."""
    paths = [ASSETS / "shared.js", *sorted(ASSETS.glob(f"{name}*.js"))]
    return gr.HTML(
        value,
        html_template=(ASSETS / f"{name}.html").read_text("utf-8"),
        js_on_load="\n".join(path.read_text("utf-8") for path in paths),
        apply_default_css=False,
        elem_id=elem_id,
    )


def line(value: str = "", elem_id: str | None = None) -> gr.HTML:
    """Create a component that displays HTML rendered by `hubnmt.ui.html`."""
    template = '<div class="slot">${value}</div>'
    return gr.HTML(
        value, html_template=template, js_on_load=None, apply_default_css=False, elem_id=elem_id
    )


def heading(title: str, lead: str) -> gr.HTML:
    """Create a constant heading with an explanatory sentence."""
    template = f'<div class="lead"><h2>{title}</h2><p>{lead}</p></div>'
    return gr.HTML(html_template=template, js_on_load=None, apply_default_css=False)


def as_client(listener: Callable[..., Any], *, replaces: str = "") -> Callable[..., Any]:
    """Wrap a listener to take turns on the model for the requesting client, see `client_errors`.

    A call ends the session's previous one with the same word in `replaces`. Gradio's own `cancels`
    would also end a call that begins while the request to cancel is under way, and shows an error.
    """
    if not inspect.isgeneratorfunction(listener):

        @functools.wraps(listener)
        def run(*values: Any) -> Any:
            with client_errors():
                return _client_context(replaces).run(listener, *values)

        return run

    @functools.wraps(listener)
    def steps(*values: Any) -> Iterator[Any]:
        # Gradio runs each step in a thread and context of its own.
        context = _client_context(replaces)
        iterator = listener(*values)
        try:
            with client_errors(), contextlib.suppress(StopIteration, AbandonedError):
                while True:
                    yield context.run(next, iterator)
        finally:
            context.run(iterator.close)

    return steps


_NEWEST: dict[tuple[str, str], object] = {}
"""Session and word -> its newest call that ends an older one."""


def _client_context(replaces: str) -> contextvars.Context:
    """Return a copy of the context in which turns are those of the request's client."""
    request = LocalContext.request.get(None)
    session = str(getattr(request, "session_hash", None) or "")
    sender = getattr(request, "client", None)  # none in a call without a server
    key, call = (session, replaces), object()
    if session and replaces:
        if len(_NEWEST) > MAX_SESSIONS:
            _NEWEST.clear()  # calls that run are not ended by newer ones then
        _NEWEST[key] = call

    def is_cancelled() -> bool:
        return _NEWEST.get(key, call) is not call

    context = contextvars.copy_context()
    context.run(CLIENT.set, Client(getattr(sender, "host", ""), is_cancelled))
    return context


def error_notice(error: HubNMTError) -> str:
    """Render an error as a notice."""
    return notice([public_message(error)], "error")


@contextlib.contextmanager
def client_errors() -> Iterator[None]:
    """Report errors of an endpoint as `gr.Error`; also usable as a decorator."""
    try:
        yield
    except HubNMTError as error:
        raise gr.Error(public_message(error), print_exception=False) from None
    except AbandonedError:
        raise gr.Error("the request was cancelled", print_exception=False) from None

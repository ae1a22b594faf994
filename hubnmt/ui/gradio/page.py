"""The page: the model, the tabs, and what reaches across them.

Takes `Handlers`, gives a Gradio app and the options to launch it with. Each tab is a room of its
own; what the browser draws itself lies in `assets/`. Must not know torch or how decoding works.
Nothing may be fetched from elsewhere, hence system fonts and `analytics_enabled=False`.
"""

import os
from typing import Any

import gradio as gr
from starlette.middleware import Middleware as Place

from hubnmt.ui.gradio.api import add_endpoints
from hubnmt.ui.gradio.compare_tab import CompareTab
from hubnmt.ui.gradio.events import ASSETS, draw_static, line
from hubnmt.ui.gradio.files_tab import FilesTab
from hubnmt.ui.gradio.learn_tab import LearnTab
from hubnmt.ui.gradio.middleware import KEPT_SESSIONS, Middleware
from hubnmt.ui.gradio.model_picker import ModelPicker
from hubnmt.ui.gradio.translate_tab import TranslateTab
from hubnmt.ui.html import attention
from hubnmt.ui.html.model_card import card_html
from hubnmt.ui.services import limits, tables
from hubnmt.ui.services.files import Files
from hubnmt.ui.services.learn import Lessons
from hubnmt.ui.services.scheduler import Scheduler
from hubnmt.ui.services.translate import Chosen, Handlers

MAX_QUEUED = 256
"""Requests in Gradio's queue, in which hardly any wait: they wait for their turn in `Scheduler`."""

MAX_THREADS = 128
"""Requests that begin, most of which wait for their turn: twice `scheduler.MAX_WAITING`."""

KEPT_FILES_S = 3600
"""How long uploads and results lie on disk at most: long enough to download them."""

LOOKED_AFTER_S = 300
"""How often Gradio looks which of them are old enough to go; the last look may come just before."""


def build_demo(handlers: Handlers) -> gr.Blocks:
    """Build the page; launch it with `launch_options()`.

    The opening model is loaded here, so that the first visitor does not wait for it.

    Raises:
        HubNMTError: if that model cannot be loaded.
    """
    chosen = handlers.choose("")
    os.environ.setdefault("GRADIO_ANALYTICS_MAX_EVENTS", "1")  # else a table of all, at every event
    demo = gr.Blocks(
        title="hubnmt: translate and look inside",
        analytics_enabled=False,
        delete_cache=(LOOKED_AFTER_S, KEPT_FILES_S - 2 * LOOKED_AFTER_S),
    )
    with demo:
        draw_static("header")
        _Page(handlers, chosen).wire(demo)
        add_endpoints(handlers)
    demo.queue(max_size=MAX_QUEUED)
    return demo


def launch_options() -> dict[str, Any]:
    """Return theme, style and manners for `demo.launch(**launch_options())`."""
    return {
        "theme": _theme(),
        "css_paths": [ASSETS / "page.css"],
        "favicon_path": ASSETS / "favicon.png",
        "footer_links": ["api", "gradio", "settings"],
        "run_history": False,  # a visitor's text is not ours to keep, in the browser neither
        "max_file_size": f"{tables.MAX_FILE_MIB}mb",
        "state_session_capacity": KEPT_SESSIONS,
        "ssr_mode": False,
        "max_threads": MAX_THREADS,
        "app_kwargs": {"middleware": [Place(Middleware, Scheduler(limits.MAX_SECONDS))]},
    }


def _theme() -> gr.themes.Base:
    """The visitor's own fonts, one accent; the other colours stand in `assets/page.css`."""
    return gr.themes.Base(
        primary_hue="indigo",
        neutral_hue="slate",
        radius_size="lg",
        font=("ui-sans-serif", "system-ui", "Segoe UI", "Roboto", "Noto Sans", "sans-serif"),
        font_mono=("ui-monospace", "SF Mono", "Consolas", "monospace"),
    )


class _Page:
    """The model that is picked, and the tabs that use it."""

    def __init__(self, handlers: Handlers, chosen: Chosen) -> None:
        self._handlers = handlers
        self._place_model(chosen)
        self._notice = line()
        with gr.Tabs(elem_id="tabs"):
            with gr.Tab("Translate", id="translate"):
                self._translate = TranslateTab(handlers, chosen)
            with gr.Tab("Compare", id="compare", elem_id="compare"):
                self._compare = CompareTab(handlers, chosen)
            with gr.Tab("Files", id="files"):
                self._files = FilesTab(Files(handlers.registry))
            with gr.Tab("Learn", id="learn") as self._learn_place:
                self._learn = LearnTab(Lessons(handlers.registry), handlers, chosen)
        tabs = (self._translate, self._compare, self._learn)
        in_tabs = (each for tab in tabs for each in tab.described)
        self._described = [self._facts, self._card, *in_tabs]

    def _place_model(self, chosen: Chosen) -> None:
        with gr.Row(elem_id="model-row"):
            self._picker = ModelPicker(self._handlers, chosen)
            self._facts = line(attention.model_line(chosen.facts))
        self._picker.place_search()
        self._card = line(card_html(chosen.facts.card), elem_id="card")

    def wire(self, demo: gr.Blocks) -> None:
        """Connect the tabs, each in its own room, and the model to all of them."""
        model = self._picker.field
        self._translate.wire(model)
        self._translate.open_link(model, demo)
        self._compare.wire()
        self._files.wire(model, self._translate.options)
        self._learn.wire(self._learn_place, model, self._translate.alternatives)
        self._picker.wire(self._notice, self._described, self._describe)

    def _describe(self, chosen: Chosen) -> list[Any]:
        """Set the page to a model."""
        return [
            attention.model_line(chosen.facts),
            card_html(chosen.facts.card),
            *self._translate.describe(chosen),
            *self._compare.describe(chosen),
            *self._learn.describe(chosen),
        ]

"""The page: the model, the tabs, and what reaches across them.

Takes `Handlers`, gives a Gradio app and the options to launch it with. Each tab is a room of its
own; what the browser draws itself lies in `assets/`. Must not know torch or how decoding works.
Nothing may be fetched from elsewhere, hence system fonts and `analytics_enabled=False`.
"""

from typing import Any

import gradio as gr

from hubnmt.ui import figures, tables
from hubnmt.ui.client_api import add_endpoints
from hubnmt.ui.compare_tab import CompareTab
from hubnmt.ui.files import Files
from hubnmt.ui.files_tab import FilesTab
from hubnmt.ui.handlers import Chosen, Handlers
from hubnmt.ui.hub_search import HubSearch
from hubnmt.ui.learn import Lessons
from hubnmt.ui.learn_tab import LearnTab
from hubnmt.ui.parts import ASSETS, QUIET, RUNS, draw_static, line, said_in_page
from hubnmt.ui.translate_tab import TranslateTab

MAX_WAITING = 64
"""Requests in the queue; the next visitor is told that it is full."""

KEPT_SESSIONS = 500
"""Visitors whose last inputs Gradio remembers; the one who was quiet longest is forgotten."""

KEPT_FILES_S = 3600
"""How long uploads and results lie on disk: long enough to download them."""


def build_demo(handlers: Handlers) -> gr.Blocks:
    """Build the page; launch it with `launch_options()`.

    The opening model is loaded here, so that the first visitor does not wait for it.

    Raises:
        HubNMTError: if that model cannot be loaded.
    """
    chosen = handlers.choose("")
    demo = gr.Blocks(
        title="hubnmt: translate and look inside",
        analytics_enabled=False,
        delete_cache=(KEPT_FILES_S // 4, KEPT_FILES_S),
    )
    with demo:
        draw_static("header")
        _Page(handlers, chosen).wire(demo)
        add_endpoints(handlers)
    demo.queue(max_size=MAX_WAITING)
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
        self._described = [self._facts, *(each for tab in tabs for each in tab.described)]

    def _place_model(self, chosen: Chosen) -> None:
        registry = self._handlers.registry
        with gr.Row(elem_id="model-row"):
            self._model = gr.Dropdown(
                choices=list(registry.names),
                value=chosen.facts.name,
                label="Model",
                info=_model_info(registry.allow_local, registry.allow_hub),
                allow_custom_value=registry.allow_local or registry.allow_hub,
                elem_id="model",
                min_width=220,
            )
            self._facts = line(figures.model_line(chosen.facts))
        # In the browser, not in a `State`: a page outlives the server it came from.
        self._opened = gr.Textbox(chosen.facts.name, visible=False)
        self._search = HubSearch(self._handlers) if registry.allow_hub else None

    def wire(self, demo: gr.Blocks) -> None:
        """Connect the tabs, each in its own room, and the model to all of them."""
        self._translate.wire(self._model)
        self._translate.open_link(self._model, demo)
        self._compare.wire()
        self._files.wire(self._model, self._translate.options)
        self._learn.wire(self._learn_place, self._model, self._translate.alternatives)
        if self._search is not None:
            self._search.wire(self._model, self._opened)
            self._model.focus(
                lambda: gr.Dropdown(choices=self._handlers.suggest()),
                None,
                self._model,
                queue=False,
                **QUIET,
            )
        changed = [self._opened, *self._described]
        self._model.change(  # by hand, by a link, or because the languages are swapped
            said_in_page(self._choose, blank=(gr.skip(),) * len(changed)),
            [self._model, self._opened],
            [self._notice, *changed],
            **RUNS,
        )

    def _choose(self, model: str, opened: str) -> tuple[Any, ...]:
        """Set the page to a model; words to search for leave it to the one that is open."""
        unchanged = (gr.skip(),) * (1 + len(self._described))
        if self._handlers.read_search(model):
            return gr.skip(), *unchanged
        if model == opened:
            return "", *unchanged
        chosen = self._handlers.choose(model)
        return (
            "",
            chosen.facts.name,
            figures.model_line(chosen.facts),
            *self._translate.describe(chosen),
            *self._compare.describe(chosen),
            *self._learn.describe(chosen),
        )


def _model_info(allow_local: bool, allow_hub: bool) -> str | None:
    also = ["a folder"] * allow_local + ["user/name on the Hub", "words to search it"] * allow_hub
    *first, last = also or [""]
    return f"Or type {', '.join(first)}{' or ' * bool(first)}{last}." if also else None

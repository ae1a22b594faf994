"""The Gradio app: model picker, tabs, named endpoints and launch options.

Nothing may be loaded from other hosts, hence system fonts and `analytics_enabled=False`.
"""

import os
from typing import Any

import gradio as gr
from gradio.events import api
from starlette.responses import Response
from starlette.routing import Route

from hubnmt.ui.gradio import train_tab
from hubnmt.ui.gradio.compare_tab import CompareTab
from hubnmt.ui.gradio.events import (
    ASSETS,
    HEAVY,
    LONG,
    MAX_SESSIONS,
    QUIET,
    as_client,
    client_errors,
    draw_static,
    heading,
    line,
)
from hubnmt.ui.gradio.files_tab import FilesTab
from hubnmt.ui.gradio.learn_tab import LearnTab
from hubnmt.ui.gradio.libretranslate import libretranslate_routes
from hubnmt.ui.gradio.model_picker import ModelPicker
from hubnmt.ui.gradio.translate_tab import TranslateTab
from hubnmt.ui.html.facts import card_html, model_line
from hubnmt.ui.services.api import Endpoints
from hubnmt.ui.services.files import MAX_FILE_MIB
from hubnmt.ui.services.registry import ModelFacts, ModelRegistry, language_lists

TITLE = "hubnmt: translation and attention"

MAX_QUEUED = 256
"""Size of Gradio's queue."""

MAX_THREADS = 128
"""Worker threads, most of which wait for a turn: twice `turns.MAX_WAITING`."""

KEPT_FILES_S = 3600
"""Maximum lifetime of uploads and results on disk."""

CLEANUP_EVERY_S = 300
"""Interval of Gradio's cleanup; a file may survive one interval beyond its age limit."""

NO_TOOLS = Route("/gradio_api/mcp/schema", lambda _: Response(status_code=304))
"""What "Use via API" asks for: any error would be in the browser's console, and 200 would show a
server of tools that there is not."""


def build_demo(registry: ModelRegistry) -> gr.Blocks:
    """Build the app; launch it with `launch_options(registry)`.

    The default model is loaded here, so that the first request does not wait for it.
    """
    chosen = registry.open("")
    # By default, every event builds a table of all events.
    os.environ.setdefault("GRADIO_ANALYTICS_MAX_EVENTS", "1")
    demo = gr.Blocks(
        title=TITLE,
        analytics_enabled=False,
        delete_cache=(CLEANUP_EVERY_S, KEPT_FILES_S - 2 * CLEANUP_EVERY_S),
    )
    with demo:
        draw_static("header")
        _Page(registry, chosen).wire(demo)
        _add_endpoints(registry)
    demo.queue(max_size=MAX_QUEUED)
    return demo


def launch_options(registry: ModelRegistry, *, has_mcp: bool = False) -> dict[str, Any]:
    """Return the keyword arguments for `demo.launch(**launch_options(registry))`."""
    trains = train_tab.tab_kind(registry) == "working"
    max_mib = train_tab.MAX_FILE_MIB if trains else MAX_FILE_MIB
    return {
        "mcp_server": has_mcp,
        "theme": _theme(),
        "css_paths": [ASSETS / "page.css"],
        "favicon_path": ASSETS / "favicon.png",
        "i18n": gr.I18n(en={"common.complete": "Done"}),  # announced, and missing in Gradio 6.31
        "footer_links": ["api", "gradio", "settings"],
        "run_history": False,  # do not store users' texts, not even in the browser
        "max_file_size": f"{max_mib}mb",
        "state_session_capacity": MAX_SESSIONS,
        "ssr_mode": False,
        "max_threads": MAX_THREADS,
        "app_kwargs": {"routes": libretranslate_routes(registry) + [NO_TOOLS] * (not has_mcp)},
    }


def _theme() -> gr.themes.Base:
    """Return a theme with system fonts and one accent; other colours are in `assets/page.css`."""
    return gr.themes.Base(
        primary_hue="indigo",
        neutral_hue="slate",
        radius_size="lg",
        font=("ui-sans-serif", "system-ui", "Segoe UI", "Roboto", "Noto Sans", "sans-serif"),
        font_mono=("ui-monospace", "SF Mono", "Consolas", "monospace"),
    )


class _Page:
    """The model picker and the tabs that use the selected model."""

    def __init__(self, registry: ModelRegistry, chosen: ModelFacts) -> None:
        self._registry = registry
        self._place_model(chosen)
        self._notice = line()
        train = train_tab.tab_kind(registry)
        self._train: train_tab.TrainTab | None = None
        with gr.Tabs(elem_id="tabs") as self._tabs:
            with gr.Tab("Translate", id="translate"):
                self._translate = TranslateTab(registry, chosen)
            with gr.Tab("Compare", id="compare", elem_id="compare") as self._compare_component:
                self._compare = CompareTab(registry, chosen)
            with gr.Tab("Files", id="files"):
                self._files = FilesTab(registry)
            with gr.Tab("Learn", id="learn") as self._learn_component:
                self._learn = LearnTab(registry, chosen)
            if train != "absent":
                with gr.Tab("Train", id="train", elem_id="train") as self._train_component:
                    if train == "working":
                        self._train = train_tab.TrainTab(registry)
                    else:
                        heading("Train a model", train_tab.ELSEWHERE)

    def _place_model(self, chosen: ModelFacts) -> None:
        lists = language_lists(self._registry, chosen)
        self._languages = draw_static("languages", "languages", lists)
        with gr.Column(elem_id="more"):
            self._picker = ModelPicker(self._registry, chosen)
        with gr.Row(elem_id="about"):
            self._facts = line(model_line(chosen))
            self._card = line(card_html(chosen.card), elem_id="card")

    def wire(self, demo: gr.Blocks) -> None:
        """Connect the events of the picker and of every tab."""
        model = self._picker.field
        self._languages.select(None, self._languages, model, js="({ chosen }) => chosen", **QUIET)
        self._translate.wire(model)
        self._translate.wire_swap(self._languages, model)
        self._translate.open_link(model, demo)
        self._compare.wire(self._compare_component, self._translate.source)
        self._files.wire(model, self._translate.options)
        self._learn.wire(self._learn_component, model, self._translate.alternatives)
        if self._train is not None:
            self._train.wire(self._train_component, self._tabs, model, self._compare.second)
        self._picker.wire(self._notice, self._describe)

    def _describe(self, chosen: ModelFacts) -> dict[Any, Any]:
        """Return all components that depend on the model, with their values."""
        return {
            self._languages: language_lists(self._registry, chosen),
            self._facts: model_line(chosen),
            self._card: card_html(chosen.card),
            **self._translate.describe(chosen),
            **self._compare.describe(chosen),
            **self._learn.describe(chosen),
        }


def _add_endpoints(registry: ModelRegistry) -> None:
    """Register the named endpoints, inside the page's `gr.Blocks`."""
    endpoints = Endpoints(registry)
    for name in ("translate", "attention", "score"):
        api(as_client(getattr(endpoints, name)), api_name=name, **HEAVY)
    api(client_errors()(endpoints.models), api_name="models")
    # On hidden components: only a `gr.File` input verifies that a path is an upload of this page
    # and not another file of the server.
    with gr.Row(visible=False):
        texts = [gr.Textbox("", label=label) for label in ("Model", "Source column")]
        inputs = [gr.File(label="File"), *texts, gr.Checkbox(True, label="Has a header")]
        inputs += [gr.Number(None, label="Beam size"), gr.Number(None, label="Length penalty")]
        outputs = [gr.File(label="Translated file"), gr.JSON(label="Details")]
        gr.Button("Translate").click(
            as_client(endpoints.translate_file),
            inputs,
            outputs,
            api_name="translate_file",
            **LONG,
        )

"""The page: components, their labels, and what is wired to what.

Takes `Handlers`, gives a Gradio app and the options to launch it with. With `options` the only
door to Gradio. Must not know torch or how decoding works. What the browser draws itself lies in
`assets/`.

Two Gradio facts that shape this file (6.31): a `gr.HTML` template is compiled twice, so a visitor's
text inside `{{...}}` would run as script; templates here are constant, and texts travel as values.
Nothing may be fetched from elsewhere, hence system fonts and `analytics_enabled=False`.
"""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.events import api

from hubnmt.config import DecodingConfig
from hubnmt.errors import HubNMTError
from hubnmt.ui import controls, figures
from hubnmt.ui.endpoints import Endpoints
from hubnmt.ui.handlers import Answer, Chosen, Handlers
from hubnmt.ui.languages import examples, language_name
from hubnmt.ui.options import OptionsPanel
from hubnmt.ui.zero_gpu import on_gpu

ASSETS = Path(__file__).parent / "assets"

MAX_WAITING = 64
"""Requests in the queue; the next visitor is told that it is full."""

HEAVY: dict[str, Any] = {"concurrency_id": "model", "concurrency_limit": 1}
"""Whatever runs a model stands in one line: two at once would only slow each other down."""

QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
"""Events of the page itself; the named endpoints are typed functions of their own."""

RUNS = HEAVY | QUIET

COPY = "(text) => { navigator.clipboard?.writeText(text); }"
"""Browsers offer a clipboard to pages from this machine and over https."""


def build_demo(handlers: Handlers) -> gr.Blocks:
    """Build the page; launch it with `launch_options()`.

    The opening model is loaded here, so that the first visitor does not wait for it.

    Raises:
        HubNMTError: if that model cannot be loaded.
    """
    chosen = handlers.choose("")
    demo = gr.Blocks(title="hubnmt: translate and look inside", analytics_enabled=False)
    with demo:
        _draw_static("header")
        page = _Page(handlers, chosen)
        page.wire()
        _add_endpoints(Endpoints(handlers))
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


def _draw_static(name: str) -> gr.HTML:
    """Place `assets/NAME.html`, which draws itself with `assets/NAME-*.js` and `NAME.js`."""
    html = (ASSETS / f"{name}.html").read_text("utf-8")
    script = "\n".join(path.read_text("utf-8") for path in sorted(ASSETS.glob(f"{name}*.js")))
    return gr.HTML(html_template=html, js_on_load=script, apply_default_css=False)


class _Page:
    """The components of the page, and their events."""

    def __init__(self, handlers: Handlers, chosen: Chosen) -> None:
        self.handlers = handlers
        self._place_model(chosen)
        self.notice = _line("")
        self._place_texts(chosen)
        self.examples = gr.Dataset(
            components=[gr.Textbox(visible=False)],
            label="Try one",
            elem_id="examples",
            **_examples(chosen),
        )
        self.options = OptionsPanel(chosen.decoding)
        self.alternatives = _draw_static("alternatives")
        self.explorer = _draw_static("explorer")

    def _place_model(self, chosen: Chosen) -> None:
        registry = self.handlers.registry
        with gr.Row(elem_id="model-row"):
            self.model = gr.Dropdown(
                choices=list(registry.names),
                value=chosen.facts.name,
                label="Model",
                info=_model_info(registry.allow_local, registry.allow_hub),
                allow_custom_value=registry.allow_local or registry.allow_hub,
                elem_id="model",
                min_width=220,
            )
            self.facts = _line(figures.model_line(chosen.facts))

    def _place_texts(self, chosen: Chosen) -> None:
        with gr.Row(elem_id="texts"):
            with gr.Column(min_width=300):
                # One line at first is what makes Enter submit; the style gives it its height.
                self.source = gr.Textbox(
                    **_source(chosen), lines=1, max_lines=14, autofocus=True, elem_id="source"
                )
                with gr.Row(elem_id="actions"):
                    self.go = gr.Button("Translate", variant="primary", elem_id="go")
                    self.clear = gr.Button("Clear", variant="secondary", elem_id="clear")
            with gr.Column(min_width=300):
                self.target = gr.Textbox(
                    **_target(chosen), lines=1, max_lines=14, interactive=False, elem_id="target"
                )
                with gr.Row(elem_id="result"):
                    self.timing = _line("")
                    # Gradio's own copy button takes the label away from the text field.
                    self.copy = gr.Button("Copy", variant="secondary", elem_id="copy")

    def wire(self) -> None:
        """Connect every component to its handler."""
        options = self.options.components
        answered = [self.notice, self.target, self.timing, self.alternatives]
        filled = self.examples.click(
            lambda row: row[0], self.examples, self.source, queue=False, **QUIET
        )
        for trigger in (functools.partial(gr.on, [self.go.click, self.source.submit]), filled.then):
            trigger(
                on_gpu(self._translate),
                [self.source, self.model, *options],
                answered,
                show_progress_on=self.target,
                **(RUNS | {"show_progress": "minimal"}),
            ).then(on_gpu(self.handlers.explore), self.alternatives, self.explorer, **RUNS)
        shown = [self.target, self.explorer]
        self.alternatives.select(
            on_gpu(self.handlers.show_alternative), self.alternatives, shown, **RUNS
        )
        if self.handlers.registry.allow_hub:
            self.model.focus(
                lambda: gr.Dropdown(choices=self.handlers.suggest()),
                None,
                self.model,
                queue=False,
                **QUIET,
            )
        described = [self.facts, self.source, self.target, self.examples, *options]
        self.model.input(
            _said_in_page(self._choose, blank=(gr.skip(),) * len(described)),
            self.model,
            [self.notice, *described],
            **RUNS,
        )
        everything = [self.source, self.options.prefix, *answered, self.explorer]
        blank = "() => ['', '', '', '', '', null, null]"
        self.clear.click(None, None, everything, js=blank, **QUIET)
        self.copy.click(None, self.target, None, js=COPY, **QUIET)
        self.options.wire(self._defaults, self.model, runs=RUNS, quiet=QUIET)

    def _translate(self, *asked: Any) -> Iterator[tuple[Any, ...]]:
        """Show the translation growing; what stood beside the last one stays till the end."""
        try:
            for shown in self.handlers.translate_page(*asked):
                yield shown if isinstance(shown, Answer) else ("", shown, gr.skip(), gr.skip())
        except HubNMTError as error:
            yield figures.notice([str(error)], "error"), "", "", None

    def _defaults(self, model: str) -> DecodingConfig:
        """Give a model's own options; one that cannot be opened has none."""
        try:
            return self.handlers.choose(model).decoding
        except HubNMTError:
            return DecodingConfig()

    def _choose(self, model: str) -> tuple[Any, ...]:
        chosen = self.handlers.choose(model)
        return (
            "",
            figures.model_line(chosen.facts),
            gr.Textbox(**_source(chosen)),
            gr.Textbox(**_target(chosen)),
            gr.Dataset(**_examples(chosen)),
            *controls.control_values(chosen.decoding).values(),
        )


# --- what the components show for a model ---


def _line(value: str) -> gr.HTML:
    """A place for one of the small pieces of HTML that `figures` makes."""
    template = '<div class="slot">${value}</div>'
    return gr.HTML(value, html_template=template, js_on_load=None, apply_default_css=False)


def _model_info(allow_local: bool, allow_hub: bool) -> str | None:
    also = ["a folder"] * allow_local + ["user/name on the Hub"] * allow_hub
    return f"Or type {' or '.join(also)}." if also else None


def _source(chosen: Chosen) -> dict[str, Any]:
    language = language_name(chosen.facts.src_lang)
    return {
        "label": language,
        "placeholder": f"Type or paste {language} text, then press Enter",
        "html_attributes": gr.InputHTMLAttributes(
            lang=chosen.facts.src_lang, enterkeyhint="go", autocomplete="off"
        ),
    }


def _target(chosen: Chosen) -> dict[str, Any]:
    return {
        "label": language_name(chosen.facts.tgt_lang),
        "placeholder": "The translation appears here",
        "html_attributes": gr.InputHTMLAttributes(lang=chosen.facts.tgt_lang),
    }


def _examples(chosen: Chosen) -> dict[str, Any]:
    samples = [[text] for text in examples(chosen.facts.src_lang)]
    return {"samples": samples, "visible": bool(samples)}


# --- errors: the one place where they become sentences ---


def _said_in_page(
    event: Callable[..., tuple[Any, ...]], blank: tuple[Any, ...]
) -> Callable[..., Any]:
    """Show a refused request as a notice, the event's first output, and `blank` in the others."""

    def said(*values: Any) -> tuple[Any, ...]:
        try:
            return event(*values)
        except HubNMTError as error:
            return figures.notice([str(error)], "error"), *blank

    return said


def _said_to_client(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """Send a refused request to the client of a named endpoint as its error message."""

    @functools.wraps(endpoint)
    def said(*values: Any) -> Any:
        try:
            return endpoint(*values)
        except HubNMTError as error:
            raise gr.Error(str(error), print_exception=False) from None

    return said


def _add_endpoints(endpoints: Endpoints) -> None:
    """Offer the named endpoints to clients and agents."""
    for name in ("translate", "attention", "score"):
        api(on_gpu(_said_to_client(getattr(endpoints, name))), api_name=name, **HEAVY)
    api(_said_to_client(endpoints.models), api_name="models")

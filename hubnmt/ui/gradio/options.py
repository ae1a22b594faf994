"""Panel of decoding options with presets, built from `decoding_controls`."""

from collections.abc import Callable
from typing import Any

import gradio as gr

from hubnmt.config import DecodingConfig
from hubnmt.ui.gradio.events import QUIET, RUNS, as_client
from hubnmt.ui.services import decoding_controls
from hubnmt.ui.services.decoding_controls import BEST, NAMES, PRESETS, control_values
from hubnmt.ui.services.registry import ModelFacts, ModelRegistry


class OptionsPanel:
    """Collapsible panel with all decoding options."""

    def __init__(
        self,
        decoding: DecodingConfig,
        *,
        name: str = "options",
        title: str = "",
        preset: str = BEST,
    ) -> None:
        """Create the components with a model's defaults and a preset.

        `name` is a unique element id, `title` a suffix of the labels if there are several panels.
        """
        values = control_values(decoding, preset)
        self._by_name: dict[str, Any] = {}
        with gr.Accordion(
            f"Decoding options {title}".strip(), open=False, elem_id=name, elem_classes="options"
        ):
            self._preset = gr.Radio(
                list(PRESETS), value=preset, label=f"Preset {title}".strip(), elem_classes="presets"
            )
            for heading, controls in decoding_controls.GROUPS.items():
                with gr.Column(elem_classes="option-group"):
                    title = f"<h3>{heading}</h3>"
                    gr.HTML(html_template=title, js_on_load=None, apply_default_css=False)
                    with gr.Row(elem_classes="option-row"):
                        for control in controls:
                            self._by_name[control.name] = _make(control, values[control.name])

    @property
    def components(self) -> list[Any]:
        """The controls in the order of `NAMES`."""
        return [self._by_name[name] for name in NAMES]

    def describe(self, chosen: ModelFacts) -> dict[Any, Any]:
        """Return the components that depend on the model, with their values."""
        values = control_values(chosen.decoding)
        return {self._by_name[name]: values[name] for name in NAMES} | {self._preset: BEST}

    @property
    def prefix(self) -> Any:
        """The forced prefix."""
        return self._by_name["prefix"]

    def wire(
        self,
        registry: ModelRegistry,
        model: gr.Dropdown,
        on_change: Callable[[Any], Any] = lambda event: None,
    ) -> None:
        """Connect the events: presets set controls, and dependent controls stay consistent.

        `on_change` connects an event after which the options are others.
        """

        def preset_values(preset: str, model: str) -> list[Any]:
            values = control_values(registry.get(model).decoding, preset)
            return [value for name, value in values.items() if name != "prefix"]

        settings = [self._by_name[name] for name in NAMES if name != "prefix"]
        chosen = self._preset.input(
            as_client(preset_values), [self._preset, model], settings, **RUNS
        )
        # Changing a control manually deselects the preset.
        inputs = [setting.input for setting in settings]
        moved = gr.on(inputs, None, None, self._preset, js="() => null", **QUIET)
        for event in (chosen.then, moved.then, self.prefix.change):
            on_change(event)
        beam_size, n_best = self._by_name["beam_size"], self._by_name["n_best"]
        pair = [beam_size, n_best]  # n_best must not exceed beam_size
        beam_size.input(None, pair, n_best, js="(beam, n) => Math.min(beam, n)", **QUIET)
        n_best.input(None, pair, beam_size, js="(beam, n) => Math.max(beam, n)", **QUIET)


def _make(control: decoding_controls.Control, value: Any) -> Any:
    shared: dict[str, Any] = {"value": value, "label": control.label, "info": control.info}
    if control.slider is not None:
        low, high, step = control.slider
        return gr.Slider(low, high, step=step, min_width=220, elem_classes=control.name, **shared)
    if isinstance(value, bool):
        return gr.Checkbox(elem_classes=control.name, **shared)
    typed = [control.name, "typed"]
    if isinstance(value, str):
        return gr.Textbox(max_lines=1, elem_classes=typed, **shared)
    return gr.Number(precision=0, min_width=220, elem_classes=typed, **shared)

"""The decoding options of the page: drawn from `controls`, with presets, and wired to each other.

Takes a model's defaults, gives the components whose values `controls.read_options` reads. Must not
know what the options do.
"""

import functools
from collections.abc import Callable
from typing import Any

import gradio as gr

from hubnmt.config import DecodingConfig
from hubnmt.ui.gradio.events import as_client
from hubnmt.ui.services import decoding_controls


class OptionsPanel:
    """Every decoding option, folded away until it is wanted."""

    def __init__(
        self,
        decoding: DecodingConfig,
        *,
        name: str = "options",
        title: str = "",
        preset: str = decoding_controls.BEST,
    ) -> None:
        """Place the components, set to a model's own defaults and a preset.

        Args:
            decoding: the defaults.
            name: what the panel is called in the page; no two share one.
            title: whose options they are, where there are several.
            preset: one of `controls.PRESETS`.
        """
        values = decoding_controls.control_values(decoding, preset)
        self._by_name: dict[str, Any] = {}
        self._preset = gr.Radio(
            list(decoding_controls.PRESETS),
            value=preset,
            label=f"Preset {title}".strip(),
            elem_classes="presets",
        )
        self._only_when: dict[str, gr.Column] = {}
        with gr.Accordion(
            f"Decoding options {title}".strip(), open=False, elem_id=name, elem_classes="options"
        ):
            for group in decoding_controls.GROUPS:
                is_shown = values.get(group.only_when, True)
                with gr.Column(visible=is_shown, elem_classes="option-group") as column:
                    self._place(group, values)
                if group.only_when:
                    self._only_when[group.only_when] = column

    def _place(self, group: decoding_controls.Group, values: dict[str, Any]) -> None:
        if group.title:
            title = f"<h3>{group.title}</h3>"
            gr.HTML(html_template=title, js_on_load=None, apply_default_css=False)
        with gr.Row(elem_classes="option-row"):
            for control in group.controls:
                self._by_name[control.name] = _draw(control, values[control.name])

    @property
    def components(self) -> list[Any]:
        """The controls, in the order of `controls.NAMES`."""
        return [self._by_name[name] for name in decoding_controls.NAMES]

    @property
    def described(self) -> list[Any]:
        """The components that change with the model; `describe` gives their values."""
        return [*self.components, self._preset]

    def describe(self, decoding: DecodingConfig) -> list[Any]:
        """Set everything to a model's own defaults."""
        return [*decoding_controls.control_values(decoding).values(), decoding_controls.BEST]

    @property
    def prefix(self) -> Any:
        """The visitor's own first words, which `Clear` takes away with the text."""
        return self._by_name["prefix"]

    def wire(
        self,
        defaults: Callable[[str], DecodingConfig],
        model: gr.Dropdown,
        *,
        runs: dict[str, Any],
        quiet: dict[str, Any],
    ) -> None:
        """Let presets set the controls, and controls keep each other possible.

        Args:
            defaults: reference -> that model's own defaults.
            model: where the reference stands.
            runs: settings of an event that may load a model.
            quiet: settings of an event that does not.
        """
        changed = [self._by_name[name] for name in decoding_controls.NAMES if name != "prefix"]
        preset = as_client(functools.partial(_preset_values, defaults))
        self._preset.input(preset, [self._preset, model], changed, **runs)
        # A control that was moved by hand leaves the preset.
        gr.on([each.input for each in changed], None, None, self._preset, js="() => null", **quiet)
        for name, column in self._only_when.items():
            switch = self._by_name[name]
            switch.change(_show_when, switch, column, queue=False, **quiet)
        beam_size, n_best = self._by_name["beam_size"], self._by_name["n_best"]
        pair = [beam_size, n_best]  # no more alternatives than hypotheses
        beam_size.input(None, pair, n_best, js="(beam, n) => Math.min(beam, n)", **quiet)
        n_best.input(None, pair, beam_size, js="(beam, n) => Math.max(beam, n)", **quiet)


def _preset_values(defaults: Callable[[str], DecodingConfig], name: str, model: str) -> list[Any]:
    """Set every control but the prefix: a visitor's own words are not a setting."""
    values = decoding_controls.control_values(defaults(model), name)
    return [value for name, value in values.items() if name != "prefix"]


def _show_when(is_on: bool) -> gr.Column:
    return gr.Column(visible=is_on)


def _draw(control: decoding_controls.Control, value: Any) -> Any:
    """Draw one control."""
    said: dict[str, Any] = {"value": value, "label": control.label, "info": control.info}
    if isinstance(control, decoding_controls.Slider):
        return gr.Slider(control.low, control.high, step=control.step, min_width=220, **said)
    if isinstance(control, decoding_controls.Number):
        return gr.Number(precision=0, min_width=220, elem_classes="typed", **said)
    if isinstance(control, decoding_controls.Switch):
        return gr.Checkbox(**said)
    return gr.Textbox(max_lines=1, elem_classes="typed", **said)

import inspect
from collections.abc import Callable
from typing import Any

import gradio as gr
import pytest

from hubnmt.config import DecodingConfig
from hubnmt.ui.gradio.options import OptionsPanel
from hubnmt.ui.services import decoding_controls

EVENT = {"api_visibility": "private"}


@pytest.fixture
def make_panel() -> Callable[..., tuple[gr.Blocks, OptionsPanel]]:
    def make(**options: object) -> tuple[gr.Blocks, OptionsPanel]:
        decoding = DecodingConfig.from_dict(options)
        with gr.Blocks(analytics_enabled=False) as demo:
            model = gr.Dropdown(["a"], label="Model")
            panel = OptionsPanel(decoding)
            panel.wire(lambda name: decoding, model, runs=EVENT, quiet=EVENT)
        return demo, panel

    return make


def test_each_control_shows_its_name_phrase_and_value(make_panel: Callable[..., tuple]):
    _, panel = make_panel(beam_size=4, temperature=0.5)
    values = decoding_controls.control_values(DecodingConfig(beam_size=4, temperature=0.5))
    for drawn, control in zip(panel.components, decoding_controls.CONTROLS, strict=True):
        assert (drawn.label, drawn.info) == (control.label, control.info)
        assert drawn.value == values[control.name]


def _is_shown(block: Any) -> bool:
    return block is None or (block.visible and _is_shown(block.parent))


@pytest.mark.parametrize("sample", [False, True])
def test_sampling_controls_show_only_when_sampling(make_panel: Callable[..., tuple], sample: bool):
    _, panel = make_panel(sample=sample)
    for drawn, control in zip(panel.components, decoding_controls.CONTROLS, strict=True):
        is_sampling = control in decoding_controls.SAMPLING.controls
        assert _is_shown(drawn) is (sample or not is_sampling)


def test_presets_set_everything_but_the_visitors_own_words(make_panel: Callable[..., tuple]):
    demo, panel = make_panel(beam_size=5)
    (event,) = [e for e in demo.fns.values() if hasattr(inspect.unwrap(e.fn), "args")]
    for name in decoding_controls.PRESETS:
        values = event.fn(name, "a")
        assert panel.prefix not in event.outputs
        assert len(values) == len(event.outputs) == len(decoding_controls.NAMES) - 1
        wanted = decoding_controls.control_values(DecodingConfig(beam_size=5), name)
        shown = dict(zip((each.label for each in event.outputs), values, strict=True))
        assert shown["Beam size"] == wanted["beam_size"]
        assert shown["Random sampling"] == wanted["sample"]

import inspect
from typing import Any

import gradio as gr
import pytest

from hubnmt.config import DecodingConfig
from hubnmt.ui.gradio.inspect_panels import InspectPanels
from hubnmt.ui.gradio.options import OptionsPanel
from hubnmt.ui.services import decoding_controls
from hubnmt.ui.services.look import Look, Steered
from hubnmt.ui.services.translate import Handlers


@pytest.fixture
def panels(handlers: Handlers) -> InspectPanels:
    with gr.Blocks(analytics_enabled=False) as demo:
        target = gr.Textbox(label="English")
        panels = InspectPanels(Look(handlers.registry))
        panels.explore_on(target.submit)
        panels.wire(target, OptionsPanel(DecodingConfig()), lambda event, is_new: None)
    panels.demo = demo  # type: ignore[attr-defined]
    return panels


def test_every_event_gives_its_outputs_a_value(panels: InspectPanels):
    for event in (event for event in panels.demo.fns.values() if event.fn):
        nothing = [None] * len(event.inputs)
        inspect.signature(event.fn).bind(*nothing)
        values = event.fn(*nothing)
        assert len(event.outputs) == (len(values) if isinstance(values, tuple) else 1)


def test_what_steering_cannot_do_leaves_the_translation_alone(panels: InspectPanels):
    text, value, explorer, steering, switches = panels._steer(
        None, None, *[None] * len(decoding_controls.NAMES)
    )
    assert [text, value, explorer, switches] == [gr.skip()] * 4
    assert steering["message"]


def test_steering_completes_as_the_controls_say(
    panels: InspectPanels, monkeypatch: pytest.MonkeyPatch
):
    asked = []

    def steer(*_: Any, **options: Any) -> Steered:
        asked.append(options)
        return Steered(None, None, None, {}, None)

    monkeypatch.setattr(Look, "steer", steer)
    values = decoding_controls.control_values(DecodingConfig()) | {"beam_size": 7}
    panels._steer({}, {}, *values.values())
    (options,) = asked
    assert options["beam_size"] == 7
    assert set(options) == set(decoding_controls.STEERED)


def test_clicks_are_answered_one_by_one(panels: InspectPanels):
    """A click that came while another was answered must not be lost."""
    by_target = {event.targets[0]: event for event in panels.demo.fns.values()}
    for panel in (panels._steering, panels._switches):
        assert by_target[panel._id, "select"].trigger_mode == "multiple"

import inspect

import gradio as gr
import pytest

from hubnmt.config import DecodingConfig
from hubnmt.ui.gradio.inspect_panels import InspectPanels
from hubnmt.ui.gradio.options import OptionsPanel
from hubnmt.ui.services.look import Look
from hubnmt.ui.services.translate import Handlers


@pytest.fixture
def panels(handlers: Handlers) -> InspectPanels:
    with gr.Blocks(analytics_enabled=False) as demo:
        value, target = gr.HTML(), gr.Textbox(label="English")
        panels = InspectPanels(Look(handlers.registry))
        panels.wire(value, target, OptionsPanel(DecodingConfig()))
    panels.demo = demo  # type: ignore[attr-defined]
    return panels


def test_every_event_gives_its_outputs_a_value(panels: InspectPanels):
    for event in panels.demo.fns.values():
        nothing = [None] * len(event.inputs)
        inspect.signature(event.fn).bind(*nothing)
        values = event.fn(*nothing)
        assert len(event.outputs) == (len(values) if isinstance(values, tuple) else 1)


def test_clicks_are_answered_one_by_one(panels: InspectPanels):
    """A click that came while another was answered must not be lost."""
    by_target = {event.targets[0]: event for event in panels.demo.fns.values()}
    for panel in (panels._steering, panels._switches):
        assert by_target[panel._id, "select"].trigger_mode == "multiple"

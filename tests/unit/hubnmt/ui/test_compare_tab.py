import gradio as gr
import pytest

from hubnmt.config import DecodingConfig
from hubnmt.ui.compare_tab import CompareTab
from hubnmt.ui.controls import control_values
from hubnmt.ui.handlers import Handlers


@pytest.fixture
def tab(handlers: Handlers) -> CompareTab:
    with gr.Blocks(analytics_enabled=False) as demo:
        tab = CompareTab(handlers, handlers.choose(""))
        tab.wire()
    tab.demo = demo  # type: ignore[attr-defined]
    return tab


def _values(tab: CompareTab) -> list[object]:
    """What the two panels say when nobody touched them."""
    return [each.value for side in tab._sides for each in (side[0], *side[1].components)]


def test_at_first_the_best_search_meets_the_fast_one(tab: CompareTab):
    sizes = [panel.components[0].value for _, panel in tab._sides]
    assert sizes == [4, 1]


def test_pressing_compares_and_refuses_in_the_page(tab: CompareTab):
    (event,) = [f for f in tab.demo.fns.values() if len(f.inputs) > 20]
    notice, page = event.fn("ein hund", *_values(tab))
    assert notice == ""
    assert "EIN HUND" in page
    notice, page = event.fn("", *_values(tab))
    assert "nothing to translate" in notice
    assert page == ""


def test_choosing_a_model_takes_its_defaults(tab: CompareTab, handlers: Handlers):
    events = [
        f
        for f in tab.demo.fns.values()
        if f.inputs and f.targets[0][1] == "input" and isinstance(f.inputs[0], gr.Dropdown)
    ]
    assert len(events) == 2
    wanted = [*control_values(DecodingConfig(beam_size=4)).values(), "Best"]
    for event in events:
        notice, *values = event.fn("second")
        assert (notice, values) == ("", wanted)
        assert len(event.outputs) == 1 + len(values)
        notice, *_ = event.fn("no/such")
        assert "is not on this page" in notice


def test_the_picked_model_becomes_a(tab: CompareTab, handlers: Handlers):
    values = tab.describe(handlers.choose("second"))
    assert len(values) == len(tab.described)
    assert values[1] == "second"
    assert tab.described[1].label == "Model A"

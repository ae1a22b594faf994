import inspect

import gradio as gr
import pytest

from hubnmt.config import DecodingConfig
from hubnmt.ui.gradio.translate_tab import TranslateTab
from hubnmt.ui.services.decoding_controls import control_values
from hubnmt.ui.services.translate import Handlers


@pytest.fixture
def tab(handlers: Handlers) -> TranslateTab:
    with gr.Blocks(analytics_enabled=False) as demo:
        model = gr.Dropdown(["first"], label="Model")
        tab = TranslateTab(handlers, handlers.choose(""))
        tab.wire(model)
    tab.demo = demo  # type: ignore[attr-defined]
    return tab


def test_the_text_grows_in_the_page_and_what_stands_beside_it_comes_last(tab: TranslateTab):
    (stream,) = [f.fn for f in tab.demo.fns.values() if inspect.isgeneratorfunction(f.fn)]
    values = control_values(DecodingConfig(beam_size=4)).values()
    *grown, last = stream("ein hund", "", *values)
    assert [each["shown"] for each in grown] == [["", "EIN"]]
    notice, text, timing, *states = last["shown"]
    assert (notice, text, last["said"], last["src"]) == ("", "EIN HUND", "EIN HUND", "ein hund")
    assert "3 tokens" in timing
    assert all(state["candidates"] for state in states)
    *_, warned = stream("so long", "", *values)
    assert "&lt;b&gt;cut&lt;/b&gt;" in warned["shown"][0]
    (refused,) = stream("", "", *values)
    assert "nothing to translate" in refused["shown"][0]
    assert refused["shown"][1:] == ["", "", None, None]

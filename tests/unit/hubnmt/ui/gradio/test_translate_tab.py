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
    streams = [f.fn for f in tab.demo.fns.values() if inspect.isgeneratorfunction(f.fn)]
    values = control_values(DecodingConfig(beam_size=4)).values()
    assert streams
    for stream in streams:
        *grown, last = stream("ein hund", "", *values)
        assert [(notice, rest) for notice, _, *rest in grown] == [("", [gr.skip()] * 2)] * len(
            grown
        )
        assert [text for _, text, *_ in grown] == ["EIN"]
        assert last[:2] == ("", "EIN HUND")
        assert "3 tokens" in last[2]
        *_, warned = stream("so long", "", *values)
        assert "&lt;b&gt;cut&lt;/b&gt;" in warned[0]
        assert last[3]["candidates"]
        (refused,) = stream("", "", *values)
        assert "nothing to translate" in refused[0]
        assert refused[1:] == ("", "", None)


def test_a_model_fills_what_changes_with_it(tab: TranslateTab, handlers: Handlers):
    values = tab.describe(handlers.choose("second"))
    assert len(values) == len(tab.described)
    assert dict(zip(tab.described, values, strict=True))[tab._swap].visible is False
    assert (values[0].label, values[1].label) == ("German", "English")
    assert tab.source.html_attributes.lang == "de"


def test_languages_are_swapped_with_the_model_that_translates_back(
    tab: TranslateTab, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
):
    assert tab._reverse("A dog.", "") == ("", "A dog.", gr.skip())
    monkeypatch.setattr(Handlers, "find_reverse", lambda self, model: "second")
    assert tab._reverse("A dog.", "first") == ("", "A dog.", "second")
    (shown,) = [each for each in tab.describe(handlers.choose("")) if isinstance(each, gr.Button)]
    assert shown.visible is True

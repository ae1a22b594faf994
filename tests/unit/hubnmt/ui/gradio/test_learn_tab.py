import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from hubnmt.ui.gradio.events import draw_static
from hubnmt.ui.gradio.learn_tab import LearnTab
from hubnmt.ui.services.learn import Lessons
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.translate import Handlers


@pytest.fixture
def make_tab(make_registry: Callable[..., ModelRegistry]) -> Callable[..., LearnTab]:
    def make(**options: bool) -> LearnTab:
        handlers = Handlers(make_registry(**options))
        with gr.Blocks(analytics_enabled=False) as demo:
            model = gr.Dropdown(["first"], label="Model")
            alternatives = draw_static("alternatives")
            with gr.Tab("Learn") as place:
                tab = LearnTab(Lessons(handlers.registry), handlers, handlers.choose(""))
            tab.wire(place, model, alternatives)
        tab.demo = demo  # type: ignore[attr-defined]
        return tab

    return make


def _events(tab: LearnTab, n_inputs: int) -> list[Any]:
    return [f.fn for f in tab.demo.fns.values() if len(f.inputs) == n_inputs]


def test_a_language_without_examples_leaves_only_the_network_blank(
    make_tab: Callable[..., LearnTab], tmp_path: Path
):
    tab = make_tab()
    translator = tab._handlers.registry.get("")
    translator.config = dataclasses.replace(translator.config, src_lang="he")
    (tmp_path / "first" / "metrics.jsonl").write_text(json.dumps({"step": 1, "loss": 2.0}))
    pieces, positions, network, run, samples = _events(tab, 3)[0]("", "", None)
    assert pieces["words"] == []
    assert positions["rows"] > 0
    assert "error" not in network
    assert "Translate a sentence in the Translate tab" in network
    assert "<svg" in run
    assert samples is None
    assert _events(tab, 2)[1]("", None) == [{}, {}, {}]


def test_a_refused_request_is_told_in_its_own_panel(make_tab: Callable[..., LearnTab]):
    panels = _events(make_tab(), 1)[:3]  # values of a layer, next token, beam search
    for event in panels:
        for value in (None, "nonsense", {"subject": {"model": "/home/name/secret"}}):
            answer = event(value)
            assert set(answer) == {"subject", "message"}
            assert "/home/name" not in answer["message"]

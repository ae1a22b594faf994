import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from hubnmt.ui.gradio.events import draw_static
from hubnmt.ui.gradio.learn_tab import LearnTab
from hubnmt.ui.services import limits
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


def _event(tab: LearnTab, n_inputs: int) -> Any:
    (event,) = [f for f in tab.demo.fns.values() if len(f.inputs) == n_inputs]
    return event.fn


def test_a_language_without_examples_leaves_only_the_network_blank(
    make_tab: Callable[..., LearnTab], tmp_path: Path
):
    tab = make_tab()
    translator = tab._handlers.registry.get("")
    translator.config = dataclasses.replace(translator.config, src_lang="he")
    (tmp_path / "first" / "metrics.jsonl").write_text(json.dumps({"step": 1, "loss": 2.0}))
    pieces, positions, network, run = _event(tab, 3)("", "", None)
    assert pieces["words"] == []
    assert positions["rows"] > 0
    assert "error" not in network
    assert "Translate a sentence in the Translate tab" in network
    assert "<svg" in run


def test_what_is_wrong_with_one_part_leaves_the_others(
    make_tab: Callable[..., LearnTab], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(limits, "MAX_WORK", 0)
    pieces, positions, network, run = _event(make_tab(), 3)("ein hund", "", None)
    assert "hypotheses the limit is" in network
    assert pieces["words"]
    assert positions["rows"] > 0
    assert "no training record" in run


def test_run_folders_are_offered_only_on_the_persons_own_machine(
    make_tab: Callable[..., LearnTab], tmp_path: Path
):
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"step": 1, "loss": 2.0}))
    for allowed in (False, True):
        tab = make_tab(allow_local=allowed)
        (row,) = [b for b in tab.demo.blocks.values() if b.elem_id == "run-row"]
        assert row.visible is allowed
        shown = _event(tab, 1)(str(tmp_path))
        assert ("<svg" in shown) is allowed
        assert ("does not open local folders" in shown) is not allowed

import inspect
from pathlib import Path

import gradio as gr
import pytest

from hubnmt.ui.gradio import page
from hubnmt.ui.gradio.events import ASSETS
from hubnmt.ui.gradio.page import build_demo, launch_options
from hubnmt.ui.services.registry import ModelRegistry

LINES = ("model", "files", "opening")


@pytest.fixture
def demo(registry: ModelRegistry) -> gr.Blocks:
    return build_demo(registry)


def test_every_event_passes_what_its_handler_takes(demo: gr.Blocks):
    for event in demo.fns.values():
        if event.fn is None:
            continue
        inspect.signature(event.fn).bind(*event.inputs)


def test_whatever_runs_a_model_stands_in_line_and_files_in_their_own(demo: gr.Blocks):
    light = [f for f in demo.fns.values() if f.concurrency_id not in LINES]
    assert all(f.fn is None or not f.queue or f.api_name == "models" for f in light)
    assert demo._queue.max_size == page.MAX_QUEUED


def test_what_visitors_leave_behind_is_bounded(demo: gr.Blocks, registry: ModelRegistry):
    every, age = demo.delete_cache
    assert 1800 < age < age + every < 3600 == page.KEPT_FILES_S  # when one is seen at last
    options = launch_options(registry)
    assert options["state_session_capacity"] == page.MAX_SESSIONS
    assert options["run_history"] is False


def test_templates_are_constant(demo: gr.Blocks):
    for block in (each for each in demo.blocks.values() if isinstance(each, gr.HTML)):
        assert "{{" not in block.html_template
        assert "${" not in block.html_template.replace("${value}", "")


CODE = [path for path in sorted(ASSETS.iterdir()) if path.suffix in (".css", ".html", ".js")]


@pytest.mark.parametrize("asset", CODE, ids=lambda path: path.name)
def test_assets_fetch_nothing_from_elsewhere_and_write_no_html(asset: Path):
    text = asset.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    for forbidden in ("http:", "https:", "@import", "url(", "innerHTML", "insertAdjacentHTML"):
        assert forbidden not in text

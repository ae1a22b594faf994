import inspect
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from hubnmt.config import DecodingConfig
from hubnmt.ui.gradio.files_tab import LEAD, FilesTab
from hubnmt.ui.gradio.options import OptionsPanel
from hubnmt.ui.services.decoding_controls import control_values
from hubnmt.ui.services.files import Files
from hubnmt.ui.services.translate import Handlers


@pytest.fixture
def tab(handlers: Handlers) -> FilesTab:
    with gr.Blocks(analytics_enabled=False) as demo:
        model = gr.Dropdown(["first"], label="Model")
        tab = FilesTab(Files(handlers.registry))
        tab.wire(model, OptionsPanel(DecodingConfig()))
    tab.demo = demo  # type: ignore[attr-defined]
    return tab


@pytest.fixture
def upload(tmp_path: Path) -> str:
    path = tmp_path / "pairs.csv"
    path.write_text("de,en\nein hund,EIN HUND\n")
    return str(path)


def _events(tab: FilesTab) -> tuple[Any, Any]:
    """Find what looks at an upload and what translates it."""
    (translate,) = [f for f in tab.demo.fns.values() if inspect.isgeneratorfunction(f.fn)]
    (describe,) = [f for f in tab.demo.fns.values() if len(f.inputs) == 3 and len(f.outputs) == 5]
    return describe, translate


def test_the_limits_are_stated():
    for said in ("UTF-8", "5 MB", "5,000 lines", ".txt, .tsv, .csv, .jsonl"):
        assert said in LEAD


def test_an_upload_fills_the_lists_of_columns(tab: FilesTab, upload: str):
    describe, _ = _events(tab)
    notice, source, reference, has_header, cancel = describe.fn(upload, "", True)
    assert notice == ""
    assert (source.value, reference.value) == ("de", "en")
    assert reference.choices[0] == ("none", "")
    assert all(each.visible for each in (source, reference, has_header, cancel))
    notice, *rest = describe.fn(str(Path(upload).with_suffix(".exe")), "", True)
    assert "Unsupported file type" in notice
    assert rest == [gr.skip()] * 4


def test_a_file_of_lines_has_no_columns_to_choose_from(tab: FilesTab, tmp_path: Path):
    describe, _ = _events(tab)
    (tmp_path / "lines.txt").write_text("ein hund\n")
    _, source, reference, has_header, cancel = describe.fn(str(tmp_path / "lines.txt"), "", True)
    assert source.value
    assert not any(each.visible for each in (source, reference, has_header))
    assert cancel.visible


def test_taking_the_file_away_empties_the_lists(tab: FilesTab):
    describe, _ = _events(tab)
    _, source, reference, *others = describe.fn(None, "", True)
    assert source.choices == reference.choices == []
    assert not any(each.visible for each in (source, reference, *others))


def test_progress_comes_before_the_result(tab: FilesTab, upload: str, handlers: Handlers):
    _, translate = _events(tab)
    options = (control_values(DecodingConfig(beam_size=2)) | {"prefix": "Yes"}).values()
    (notice, bar, waiting), (_, report, ready) = translate.fn(
        upload, "", "de", "en", True, *options
    )
    assert notice == ""
    assert "<progress" in bar
    assert waiting.visible is False
    assert "BLEU" in report
    assert ready.visible
    assert ready.value["path"].endswith("translation.csv")
    asked = handlers.registry.get("").asked
    assert asked["beam_size"] == 2
    assert "prefix" not in asked
    assert "n_best" not in asked


def test_what_is_refused_is_said_in_the_page(tab: FilesTab):
    _, translate = _events(tab)
    options = control_values(DecodingConfig()).values()
    ((notice, report, _),) = translate.fn(None, "", None, None, True, *options)
    assert "There is no file yet" in notice
    assert report == ""


def test_cancelling_stops_the_run_and_hides_its_report_until_the_next(tab: FilesTab):
    (stop,) = [f for f in tab.demo.fns.values() if f.cancels]
    _, translate = _events(tab)
    assert stop.cancels == [translate._id]
    (clear,) = [f for f in tab.demo.fns.values() if f.targets == stop.targets and f.fn]
    notice, report, download = clear.fn()
    assert notice == ""
    assert report.visible is False
    assert download.visible is False
    (start,) = [f for f in tab.demo.fns.values() if f._id == translate.trigger_after]
    report, _ = start.fn()
    assert (report.visible, report.value) == (True, "")

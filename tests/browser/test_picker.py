"""The model picker of a page that may open models of the Hub."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hubnmt.translator import Translator
from hubnmt.ui.services.registry import ModelRegistry
from tests.hub import REPO, read_folder
from tests.hub_server import Fault, HubServer
from tests.page import serving

pytestmark = pytest.mark.browser

TEXT = "Ein Hund rennt."


@pytest.fixture
def url(hub: HubServer, model_folder: Path, bundled_model: Path, tmp_path: Path) -> Iterator[str]:
    """Serve a page for one person, beside a Hub with one model; whichever is named, one answers.

    A name that says so is really fetched.
    """
    hub.store.put(REPO, read_folder(model_folder))
    translator = Translator.from_pretrained(bundled_model)

    def load(name: str) -> Translator:
        return Translator.from_pretrained(name) if "fetched" in name else translator

    registry = ModelRegistry(load, {"stand-in": tmp_path}, allow_hub=True)
    with serving(registry) as url:
        yield url


# Gradio (6.31) opens /dev/null for each bar that it follows, and leaves closing it to Python.
@pytest.mark.filterwarnings("ignore:unclosed file.*/dev/null:ResourceWarning")
@pytest.mark.filterwarnings("ignore:.*/dev/null:pytest.PytestUnraisableExceptionWarning")
def test_models_of_the_hub_are_chosen_typed_and_fetched(
    visit: Any, hub: HubServer, model_folder: Path
):
    page, model = visit.page, visit.page.locator("#model input")

    def enter(text: str) -> None:
        if not model.is_visible():
            page.click("text=More models")
        page.fill("#model input", text)
        page.press("#model input", "Enter")

    assert hub.asked("GET /api/models") == []
    page.click("text=More models")
    page.click(f"[role=option]:has-text('{REPO}')")
    visit.until_value(model, re.compile("BLEU 41.2"))
    assert visit.translate(TEXT)
    enter("user/another@v1")
    assert visit.translate("Ein Kind lacht.")
    visit.until_value(model, "user/another@v1")
    hub.store.put("someone/fetched-de-en", read_folder(model_folder))
    enter("nowhere")
    page.wait_for_selector("[role=alert]:has-text('is not available on this page')")
    hub.faults.append(Fault(".", times=None, pause_s=0.3))
    enter("someone/fetched-de-en")
    page.locator("#model", has_text=re.compile(r"[\d.]+k?/[\d.]+k? B")).wait_for()
    page.wait_for_selector("#model .progress-level", state="detached")
    page.wait_for_selector("#about :text(' k parameters')")

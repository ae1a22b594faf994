"""The model picker of a page that may open models of the Hub."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hubnmt.translator import Translator
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.translate import Handlers
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
    with serving(Handlers(registry)) as url:
        yield url


def test_models_of_the_hub_are_offered_and_open(visit: Any, hub: HubServer):
    page = visit.page
    assert hub.asked("GET /api/models") == []
    page.click("#model input")
    page.click(f"[role=option]:has-text('{REPO}')")
    visit.until_value(page.locator("#model input"), re.compile("BLEU 41.2"))
    assert visit.translate(TEXT)
    assert len(hub.asked("GET /api/models")) == 1


def test_any_model_can_be_typed(visit: Any):
    page = visit.page
    page.fill("#model input", "user/another@v1")
    page.press("#model input", "Enter")
    assert visit.translate(TEXT)
    visit.until_value(page.locator("#model input"), "user/another@v1")


# Gradio (6.31) opens /dev/null for each bar that it follows, and leaves closing it to Python.
@pytest.mark.filterwarnings("ignore:unclosed file.*/dev/null:ResourceWarning")
@pytest.mark.filterwarnings("ignore:.*/dev/null:pytest.PytestUnraisableExceptionWarning")
def test_a_download_shows_how_far_it_is(visit: Any, hub: HubServer, model_folder: Path):
    page, name = visit.page, "someone/fetched-de-en"
    hub.store.put(name, read_folder(model_folder))
    hub.faults.add(Fault(".", times=None, pause_s=0.3))
    page.fill("#model input", name)
    page.press("#model input", "Enter")
    page.locator("#model", has_text=re.compile(r"[\d.]+k?/[\d.]+k? B")).wait_for()
    page.wait_for_selector("#model .progress-level", state="detached")
    page.wait_for_selector("#model-row :text(' k parameters')")


def test_words_find_models_of_the_hub(visit: Any, hub: HubServer, model_folder: Path):
    page, name = visit.page, "someone/elsewhere-de-en"
    model = page.locator("#model input")
    visit.translate(TEXT)
    page.click("#model input")
    page.wait_for_selector(f"[role=option]:has-text('{REPO}')")
    hub.store.put(name, read_folder(model_folder))  # the list is known, and this is not in it
    page.fill("#model input", "elsewhere")
    page.press("#model input", "Enter")
    found = page.locator(f"#model-found button:has-text('{name} (de to en, BLEU 41.2')")
    found.wait_for()
    visit.until_value(model, "stand-in")
    assert visit.translate("Ein Kind lacht.")
    found.click()
    page.wait_for_selector("#model-found", state="hidden")
    visit.until_value(model, re.compile(name))
    # Words give way to the model that is open, so this one has to be: it has no folder, no size.
    page.locator("#model-row .facts:not(:has-text(' MB'))").wait_for()
    assert visit.translate("Zwei Kinder lachen.")
    page.fill("#model input", "nowhere")
    page.press("#model input", "Enter")
    page.wait_for_selector("#model-said :text('No hubnmt model on the Hub')")
    visit.until_value(model, re.compile(name))
    assert visit.fits
    assert len(hub.asked("GET /api/models")) == 3


def test_a_search_without_the_hub_is_a_sentence(visit: Any, hub: HubServer):
    hub.faults.add(Fault(".", times=None, status=403))
    visit.page.fill("#model input", "elsewhere")
    visit.page.press("#model input", "Enter")
    visit.page.wait_for_selector("#model-said .notice.error")
    visit.until_value(visit.page.locator("#model input"), "stand-in")
    assert visit.translate(TEXT)


def test_the_picker_works_without_the_hub(visit: Any, hub: HubServer):
    hub.faults.add(Fault(".", times=None, status=503))
    visit.page.click("#model input")
    visit.page.wait_for_selector("[role=option]:has-text('stand-in')")
    assert visit.translate(TEXT)


@pytest.mark.parametrize("visit", ["laptop light", "phone dark"], indirect=True)
def test_what_is_compared_is_searched_for_too(visit: Any, hub: HubServer, model_folder: Path):
    page, name = visit.page, "someone/elsewhere-de-en"
    visit.open_tab("Compare")
    page.click("#model-b input")
    page.wait_for_selector(f"[role=option]:has-text('{REPO}')")
    hub.store.put(name, read_folder(model_folder))  # the list is known, and this is not in it
    page.fill("#model-b input", "elsewhere")
    page.press("#model-b input", "Enter")
    found = page.locator(f"#model-b-found button:has-text('{name}')")
    found.wait_for()
    visit.until_value(page.locator("#model-b input"), "stand-in")
    assert visit.fits
    found.click()
    page.wait_for_selector("#model-b-found", state="hidden")
    page.fill("#model-a input", "user/another@v1")
    page.press("#model-a input", "Enter")
    visit.compare(TEXT)
    assert page.input_value("#model input") == "stand-in"
    heads = page.locator("#comparison thead th").all_inner_texts()
    assert heads[1:] == ["under user/another@v1", f"under {name}"]

"""Languages, the models between them, and the way back."""

from collections.abc import Iterator
from typing import Any

import pytest

from hubnmt.checkpoint.files import bundled_models
from hubnmt.translator import Translator
from hubnmt.ui.services.registry import ModelRegistry
from tests.page import serving

pytestmark = pytest.mark.browser


@pytest.fixture
def url() -> Iterator[str]:
    folders = bundled_models()
    del folders["ml-en"]  # so that one pair has no way back
    with serving(ModelRegistry(Translator.from_pretrained, folders)) as url:
        yield url


@pytest.mark.parametrize("visit", ["phone dark"], indirect=True)
def test_languages_are_chosen_and_swapped(visit: Any):
    page = visit.page

    def until_answer(src: str, tgt: str) -> None:
        page.wait_for_selector(f"#source label:has-text('{src}')")
        page.wait_for_selector(f"#target[data-state=''] label:has-text('{tgt}')")

    assert page.locator("button.toggle").is_hidden()  # visitors of this page open no others
    german = visit.translate("Wo wohnst du?")
    page.click("#swap")
    until_answer("English", "German")
    visit.until_value(page.locator("#source textarea"), german)
    assert visit.target != german
    names = page.locator(".languages .tgt option").all_inner_texts()
    assert names == ["French", "German", "Malayalam"]
    page.select_option(".languages .tgt", "ml")
    until_answer("English", "Malayalam")
    page.wait_for_function(
        "text => document.querySelector('.announced').innerText !== text", arg=""
    )
    assert page.input_value("#source textarea") == german
    page.click("#swap")
    page.wait_for_selector("text=No model here translates from Malayalam to English.")
    page.select_option(".languages .src", "auto")
    page.fill("#source textarea", "Das Buch, das du mir geschenkt hast, gefällt mir sehr.")
    until_answer("German", "English")
    assert page.inner_text(".languages .src option:checked") == "Detected: German"
    page.fill("#source textarea", "Le livre que tu m'as offert me plaît beaucoup.")
    until_answer("French", "English")
    page.select_option(".languages .src", "de")
    until_answer("German", "English")
    labels = page.locator(".languages .of-pair option").all_inner_texts()
    assert labels[0].startswith("German to English, 13 M: everyday sentences")
    page.select_option(".languages .of-pair", "de-en-multi30k")
    page.wait_for_selector("#about :text('Photo captions')")
    page.click("#card summary")
    assert page.locator("#card h3").all_inner_texts()[:2] == ["Limits", "Scores"]
    assert visit.fits
    visit.learn()
    other = page.inner_text("#beam tbody")
    page.select_option(".languages .src", "en")
    page.wait_for_selector("#history .start:has-text('Fine-tuned from')")
    page.wait_for_function(
        "other => document.querySelector('#beam tbody').innerText !== other", arg=other
    )

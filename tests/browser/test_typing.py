"""Translation while typing."""

from typing import Any

import pytest

pytestmark = pytest.mark.browser

STATE = "document.querySelector('#target').dataset.state"


def test_the_translation_follows_the_text(visit: Any):
    page = visit.page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    page.click("#source textarea")
    page.keyboard.type("Zwei Frauen", delay=20)
    page.wait_for_function("document.querySelector('#target textarea').value")
    page.wait_for_function(f"{STATE} === ''")
    assert asked.count("join") < 4  # one for the text, one for its inspection
    page.keyboard.type(" lachen.", delay=20)
    assert page.evaluate(STATE)
    page.wait_for_function("document.querySelector('.announced').innerText.includes('laugh')")
    assert page.evaluate(STATE) == ""
    assert page.inner_text(".announced").startswith(f"Translation: {visit.target}")
    # An older translation is ended by a newer one, and both by an empty field.
    page.fill("#source textarea", "Ein Mann schläft. " * 40)
    page.keyboard.press("Control+Enter")
    page.wait_for_timeout(100)
    page.fill("#source textarea", "Zwei Hunde.")
    page.keyboard.press("Control+Enter")
    page.wait_for_function("document.querySelector('.announced').innerText.includes('dogs')")
    page.wait_for_timeout(1500)
    assert "dogs" in visit.target
    page.fill("#source textarea", "Ein Mann schläft. " * 40)
    page.wait_for_function(f"{STATE} === 'busy'")
    page.fill("#source textarea", "")
    page.wait_for_timeout(1500)
    assert (visit.target, page.evaluate(STATE)) == ("", "")


def test_what_is_not_translated_yet_is_marked(visit: Any):
    page = visit.page
    visit.translate("Zwei Frauen lachen.")
    page.get_by_label("Translate as I type").uncheck()
    page.fill("#source textarea", "Ein Hund")
    page.wait_for_timeout(1000)
    assert page.evaluate(STATE) == "stale"
    page.fill("#source textarea", "Zwei Frauen lachen.")
    assert page.evaluate(STATE) == ""
    page.fill("#source textarea", "Ein Hund")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("Ein Mann")
    page.keyboard.press("Enter")
    assert page.input_value("#source textarea") == "Ein Hund\nEin Mann\n"
    assert page.evaluate(STATE) == "stale"
    page.keyboard.press("Control+Enter")
    page.wait_for_function(f"{STATE} === ''")
    assert visit.target.count("\n") == 2
    page.reload()
    page.wait_for_selector("#source textarea")
    assert not page.get_by_label("Translate as I type").is_checked()


def test_clear_is_undone(visit: Any):
    page = visit.page
    first = visit.translate("Zwei Frauen lachen.")
    visit.open_options()
    page.get_by_label("Forced prefix").fill("Two")
    page.click("#clear")
    visit.until_value(page.get_by_label("Forced prefix"), "")
    assert (page.input_value("#source textarea"), visit.target) == ("", "")
    page.get_by_role("button", name="Undo").click()
    visit.until_value(page.get_by_label("Forced prefix"), "Two")
    visit.until_target(first)
    assert page.input_value("#source textarea") == "Zwei Frauen lachen."

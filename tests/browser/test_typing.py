"""Translation while typing."""

import re
from typing import Any

import pytest

from tests.browser.conftest import expect

pytestmark = pytest.mark.browser

STATE = "document.querySelector('#target').dataset.state"


def test_the_translation_follows_the_text(visit: Any):
    page = visit.page
    page.evaluate(
        """() => {
          window.said = []; window.states = [];
          const line = document.querySelector('.announced');
          const watch = () => line.textContent && window.said.push(line.textContent);
          new MutationObserver(watch).observe(line, { childList: true, characterData: true });
          new MutationObserver(([{ target }]) => window.states.push(target.dataset.state))
            .observe(document.querySelector('#target'), { attributeFilter: ['data-state'] });
        }"""
    )
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    page.click("#source textarea")
    page.keyboard.type("Ein Hund rennt im Schnee und zwei Frauen lachen.", delay=80)
    # Without a pause: translated all along, and not at every key; read out once.
    assert 2 <= len([name for name in asked if name.startswith("join")]) < 20
    page.wait_for_function(f"{STATE} === ''")
    assert {"stale", "busy"} <= set(page.evaluate("window.states"))
    page.wait_for_function("window.said.length")
    page.wait_for_timeout(500)
    assert len(page.evaluate("window.said")) == 1
    assert page.inner_text(".announced").startswith(f"Translation: {visit.target}")
    page.click("#copy")
    page.wait_for_function("window.said.at(-1) === 'Copied'")
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


def test_changed_options_translate_again(visit: Any):
    page = visit.page
    text = "Ein kleines Mädchen klettert in ein Spielhaus aus Holz."
    best = visit.translate(text)
    visit.open_options()
    page.get_by_label("Forced prefix").fill("Yesterday ")
    page.wait_for_function("document.querySelector('#target textarea').value.startsWith('Yes')")
    page.get_by_label("Forced prefix").fill("")
    visit.until_target(best)
    page.get_by_role("radio", name="Creative").check()
    seeds = set()
    for _ in range(3):
        page.wait_for_function(f"{STATE} === ''")
        page.wait_for_function(
            """(seen) => {
              const found = document.querySelector('#result').innerText.match(/seed \\d+/);
              return found && !seen.includes(found[0]);
            }""",
            arg=sorted(seeds),
        )
        seeds |= set(re.findall(r"seed \d+", page.inner_text("#result")))
        page.click("#go")
    page.get_by_label("Translate as I type").uncheck()
    page.wait_for_function(f"{STATE} === ''")
    size = page.get_by_label("number input for Beam size")
    size.fill("2")
    size.press("Tab")
    page.wait_for_function(f"{STATE} === 'stale'")


def test_the_edited_beginning_of_a_translation_is_kept(visit: Any):
    page = visit.page
    first = visit.translate("Zwei Frauen lachen.")
    page.click("#target textarea")
    page.keyboard.press("Control+Home")
    page.keyboard.press("Delete")
    page.keyboard.type("Yesterday t")
    page.wait_for_function(f"{STATE} === 'busy'")
    page.wait_for_function(f"{STATE} === ''")
    assert visit.target.startswith("Yesterday t")
    assert page.evaluate("document.activeElement.selectionStart") == len("Yesterday t")
    page.fill("#source textarea", "Zwei Frauen lachen")
    page.wait_for_function("!document.querySelector('#target textarea').value.startsWith('Yes')")
    page.fill("#source textarea", "Zwei Frauen lachen.")
    visit.until_target(first)


@pytest.mark.parametrize("visit", ["phone dark"], indirect=True)
def test_a_text_that_is_too_long_is_sent_to_the_files(visit: Any):
    page = visit.page
    assert page.inner_text(".typing .count") == ""
    page.fill("#source textarea", "Ein Hund rennt im Schnee. " * 480)
    assert page.inner_text(".typing .count") == "12,480 / 10,000"
    expect(page.locator(".over")).to_be_in_viewport()
    page.click(".over button")
    page.wait_for_selector("#upload:visible")
    visit.open_tab("Translate")
    page.fill("#source textarea", "Ein Hund.")
    assert not page.is_visible(".over")
    page.set_viewport_size({"width": 320, "height": 640})
    visit.translate("Zwei Hunde.")
    edges = page.evaluate(
        "[...document.querySelectorAll('#texts button, #texts textarea')]"
        ".map((each) => each.getBoundingClientRect().right)"
    )
    assert max(edges) <= 320


def test_a_reload_keeps_the_text_and_an_old_link_does_not_come_back(visit: Any, url: str):
    page = visit.page
    visit.translate("Zwei Frauen lachen.")
    page.click("#link")
    page.wait_for_function("location.hash")
    visit.translate("Ein Hund rennt.")
    page.reload()
    visit.until_value(page.locator("#source textarea"), "Ein Hund rennt.")
    page.wait_for_function("document.querySelector('#target textarea').value")
    page.goto("about:blank")
    page.goto(f"{url}#model=user%2F%3Cb%3Emodel&text=Hallo")
    told = page.locator(".typing .told")
    told.wait_for()
    assert told.inner_text().startswith("The model user/<b>model cannot be opened by a link")
    visit.until_value(page.locator("#source textarea"), "Hallo")

"""Journeys on the Translate tab: text in, translation out, options, links and steering.

Every test also fails on a console message, a failed request, or one to another host.
"""

import re
from typing import Any
from urllib.parse import quote

import pytest

from hubnmt.ui.services.limits import MAX_TEXT_CHARS
from tests.browser.conftest import expect

pytestmark = pytest.mark.browser

TEXT = "Ein kleines Mädchen klettert in ein Spielhaus aus Holz."
MARKUP = "<img src=x onerror=alert(1)> ${alert(2)} {{alert(3)}} <script>alert(4)</script>"
SHADE = "getComputedStyle(document.body).backgroundColor"


def test_a_first_visit(visit: Any):
    page = visit.page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.reload()
    page.wait_for_selector("#source textarea")
    page.wait_for_timeout(1000)
    assert [each for each in asked if "/queue/join" in each or "/run/" in each] == []
    page.click("#go")
    page.wait_for_selector("[role=alert]:visible")
    assert page.inner_text("[role=alert]:visible").startswith("There is nothing to translate yet")
    page.locator("#examples button").first.click()
    page.wait_for_selector(".alternatives button")
    assert page.input_value("#source textarea")
    assert visit.target
    assert page.locator("[role=alert] >> visible=true").count() == 0
    first = visit.translate(TEXT)
    other = page.locator(".alternatives button").nth(1)
    text = other.get_attribute("aria-label")
    assert 0 < len(other.locator("mark").inner_text()) < len(text)
    other.click()
    visit.until_target(text)
    assert text != first
    assert other.get_attribute("aria-pressed") == "true"
    visit.ask(1)
    page.click("#clear")
    page.wait_for_selector("#inside", state="hidden")
    assert (page.input_value("#source textarea"), visit.target) == ("", "")
    before = page.evaluate(SHADE)
    page.get_by_label("Switch between light and dark").click()
    page.wait_for_function(f"before => {SHADE} !== before", arg=before)


def test_decoding_options(visit: Any):
    page = visit.page
    visit.open_options()
    number = {
        name: page.get_by_label(f"number input for {name}")
        for name in ("Temperature", "Beam size", "Alternatives")
    }
    best = page.get_by_role("radio", name="Best")
    assert best.is_checked()
    assert not number["Temperature"].is_visible()
    page.get_by_role("radio", name="Creative").check()
    number["Temperature"].wait_for()
    visit.until_value(number["Temperature"], "0.9")
    expect(page.get_by_label("Random sampling")).to_be_checked(checked=True)
    visit.translate(TEXT)
    page.get_by_label("Seed").fill("-1")
    page.click("#go")
    page.wait_for_selector("[role=alert]:visible")
    assert "seed = -1" in page.inner_text("[role=alert]:visible")
    page.get_by_role("radio", name="Fast").check()
    number["Temperature"].wait_for(state="hidden")
    visit.until_value(number["Beam size"], "1")
    visit.until_value(number["Alternatives"], "1")
    best.check()
    visit.until_value(number["Beam size"], re.compile("[^1]"))
    number["Beam size"].fill("2")
    number["Beam size"].press("Tab")
    visit.until_value(number["Alternatives"], "2")
    expect(best).to_be_checked(checked=False)
    page.get_by_label("Forced prefix").fill("Yesterday ")
    text = visit.translate("Zwei Frauen lachen.")
    assert text.startswith("Yesterday ")
    visit.inside("Alternatives")
    assert page.locator(".alternatives button").count() <= 2
    page.click("#clear")
    visit.until_value(page.get_by_label("Forced prefix"), "")
    assert (page.input_value("#source textarea"), visit.target) == ("", "")
    page.get_by_role("button", name="Undo").click()
    visit.until_value(page.get_by_label("Forced prefix"), "Yesterday ")
    visit.until_target(text)
    assert page.input_value("#source textarea") == "Zwei Frauen lachen."


NO_CLIPBOARD = "Object.defineProperty(navigator, 'clipboard', { value: undefined })"
"""As on a page that comes over http from another machine."""


def test_links_and_copies(visit: Any, url: str):
    page = visit.page

    def open_link(link: str) -> str:
        page.goto("about:blank")
        page.goto(link)
        # The link's text is translated: later, this would begin what is typed next once more.
        page.wait_for_selector("#target[data-state]")
        text: str = page.input_value("#source textarea")
        return text

    def press(button: str, said: str) -> None:
        page.click(button)
        page.wait_for_function(f"document.querySelector('{button}').innerText.trim() === '{said}'")

    visit.translate(TEXT)
    translation = visit.target
    press("#link", "Copied")
    assert open_link(page.url) == TEXT
    visit.until_target(translation)
    page.wait_for_function("document.querySelector('#target').dataset.state === ''")
    assert open_link(f"{url}#model=no%2Fsuch&text=%3Cb%3EHallo") == "<b>Hallo"
    assert page.input_value("#model input") != "no/such"
    page.wait_for_function("document.querySelector('#target').dataset.state === ''")
    long = "a" + "😀" * MAX_TEXT_CHARS
    assert open_link(f"{url}#text={quote(long)}") == long[:MAX_TEXT_CHARS]
    visit.settle()
    translation = visit.translate(TEXT)
    page.evaluate(NO_CLIPBOARD)
    for button, said in (("#copy", translation), ("#link", "#model=")):
        press(button, "Copied")
        page.fill("#source textarea", "")
        page.focus("#source textarea")
        page.keyboard.press("Control+V")
        assert said in page.input_value("#source textarea")
    page.evaluate("document.execCommand = () => false")
    # What was pasted is translated.
    page.wait_for_function("document.querySelector('#target').dataset.state === ''")
    press("#copy", "Press Ctrl+C")
    field = page.locator("#target textarea:focus")
    chosen = "field => field.value.slice(field.selectionStart, field.selectionEnd)"
    assert field.evaluate(chosen) == visit.target
    press("#link", "See address bar")


def test_markup_stays_text_on_every_tab(visit: Any):
    page = visit.page
    visit.open_options()
    page.get_by_label("Forced prefix").fill(MARKUP)
    assert visit.translate(MARKUP).startswith(MARKUP)
    visit.ask(0)
    visit.inside("Look inside")
    page.select_option(".explorer .unit", "pieces")
    assert page.input_value("#source textarea") == MARKUP
    visit.learn()
    page.fill("#pieces-text textarea", MARKUP)
    page.wait_for_function("document.querySelectorAll('#pieces .word').length > 9")
    visit.compare(MARKUP)
    visit.choose_file(f"{MARKUP}\ten\na\tb\n", "<b>x.tsv")
    page.click("#source-column input")
    page.locator("#source-column").get_by_role("option", name=MARKUP).wait_for()
    assert page.locator("img[src=x]").count() == 0


def test_words_are_steered(visit: Any):
    page = visit.page
    words = page.locator(".steering .words button")
    visit.translate("Zwei Frauen lachen.")
    visit.inside("Steer")
    words.nth(1).click()
    first = visit.translate(TEXT)
    visit.inside("Steer")
    assert words.first.inner_text() == first.split()[0]
    assert not page.locator(".steering .place").is_visible()
    names = words.evaluate_all("words => words.map((word) => word.ariaLabel)")
    assert all(re.fullmatch(r".+, probability (<1|\d+)%", name) for name in names)
    name = words.nth(2).inner_text()
    for n in (0, 1, 2):  # the last click counts
        words.nth(n).click()
    page.wait_for_selector(".steering .choice")
    assert f"“{name}”" in page.inner_text(".steering .question")
    assert page.locator(".steering .choice .piece").first.inner_text() == name
    page.locator(".steering .choice").first.click()  # what stands there already
    page.wait_for_selector(".steering .place", state="hidden")
    assert visit.target == first
    visit.ask(2)
    other = page.locator(".steering .choice").nth(1)
    wanted = other.locator(".text").inner_text()
    other.click()
    visit.until_target(wanted)
    assert wanted != first
    page.wait_for_selector(".steering .place", state="hidden")
    visit.inside("Look inside")
    drawn = "".join(page.locator(".explorer .queries button").all_inner_texts())
    assert drawn == wanted.replace(" ", "") + "<eos>"
    visit.inside("Alternatives")
    page.locator(".alternatives button").nth(1).click()
    visit.until_target(first)


UNDERLINED = "words => words.map((word) => word.textContent)"


def test_words_that_the_model_is_unsure_of_are_underlined(visit: Any):
    page = visit.page
    shown = page.locator("#target .under")
    text = "Zwei Schwammtaucherinnen kichern über Quantenchromodynamik."

    def unsure_words() -> list[str]:
        """The words of the steering row with a probability below 0.5."""
        visit.inside("Steer")
        names = page.locator(".steering .words button").evaluate_all(
            "words => words.map((word) => word.ariaLabel)"
        )
        rated = [re.fullmatch(r"(.+), probability <?(\d+)%", name).groups() for name in names]
        return [word for word, share in rated if int(share) < 50 and word[0].isalnum()]

    visit.translate(text)
    underlined = shown.locator("u").evaluate_all(UNDERLINED)
    assert underlined
    assert set(unsure_words()) - {"end"} <= set(underlined)
    assert shown.evaluate("under => under.textContent") == visit.target
    page.wait_for_function("document.querySelector('.announced').textContent.includes('Unsure: ')")
    assert underlined[0] in page.inner_text(".announced").partition("Unsure: ")[2]
    field, under = (page.locator(f"#target {each}") for each in ("textarea", ".under"))
    heights = [each.evaluate("each => each.scrollHeight") for each in (field, under)]
    assert heights[0] == heights[1]
    visit.inside("Alternatives")
    assert page.locator(".alternatives u.doubted").count() > 0
    for _ in range(2):  # light and dark
        line, paper = page.evaluate(
            """() => [
              getComputedStyle(document.querySelector('#target .under u')).textDecorationColor,
              getComputedStyle(document.querySelector('#target')).backgroundColor,
            ]"""
        )
        assert _contrast(line, paper) >= 3
        page.get_by_label("Switch between light and dark").click()
    page.fill("#source textarea", "Zwei")
    assert not shown.is_visible()


def _contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colours like `rgb(1, 2, 3)`, as WCAG 2 defines it."""

    def luminance(colour: str) -> float:
        levels = [int(each) / 255 for each in re.findall(r"\d+", colour)[:3]]
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in levels]
        return sum(share * v for share, v in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted(map(luminance, (first, second)))
    return (high + 0.05) / (low + 0.05)


def test_the_keyboard_reaches_everything_and_stays_there(visit: Any):
    page = visit.page
    visit.translate(TEXT)
    outline = "(each) => getComputedStyle(document.querySelector(each)).outlineStyle"
    for field, framed in (("#source textarea", "#source"), ("#target textarea", "#target")):
        page.focus(field)
        assert page.evaluate(outline, framed) == "solid"
    page.focus("#card summary")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    assert page.evaluate(outline, "#card") == "solid"
    visit.inside("Steer")
    active = (
        "document.activeElement.closest('section')?.className + document.activeElement.innerText"
    )
    page.locator(".steering .words button").nth(2).focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".steering .choice")
    assert page.evaluate(active) == "steering cardgirl"
    page.locator(".steering .choice").nth(1).focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".steering .place", state="hidden")
    assert "steering card" in page.evaluate(active)
    visit.inside("Alternatives")
    page.locator(".alternatives button").nth(1).focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.ariaPressed") == "true"
    page.get_by_role("tab", name="Translate").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#compare-source textarea:visible")

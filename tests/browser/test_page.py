"""What a visitor does on the first page, on a laptop and a phone, by day and by night.

Every test also fails on a console message, a failed request, or one to another host.
"""

from typing import Any
from urllib.parse import quote

import pytest

from hubnmt.ui.services.limits import MAX_TEXT_CHARS

pytestmark = pytest.mark.browser

everywhere = pytest.mark.parametrize(
    "visit", ["laptop light", "laptop dark", "phone light", "phone dark"], indirect=True
)
on_both = pytest.mark.parametrize("visit", ["laptop light", "phone dark"], indirect=True)

TEXT = "Ein kleines Mädchen klettert in ein Spielhaus aus Holz."


@everywhere
def test_enter_translates_and_the_heatmap_appears(visit: Any):
    assert visit.translate(TEXT)
    page = visit.page
    rows = page.locator(".explorer .map tbody tr").count()
    columns = page.locator(".explorer .map thead th").count()
    assert page.locator(".explorer .map td[aria-label]").count() == rows * columns > 0
    assert "tokens/s" in page.inner_text("#result")
    assert visit.fits
    visit.keep_picture("translate")


def test_shift_enter_begins_a_new_line(visit: Any):
    visit.page.fill("#source textarea", "Eins")
    visit.page.press("#source textarea", "Shift+Enter")
    visit.page.type("#source textarea", "Zwei")
    assert visit.page.input_value("#source textarea") == "Eins\nZwei"
    assert visit.page.input_value("#target textarea") == ""


def test_the_buttons_of_both_texts_stand_in_one_line(visit: Any):
    visit.page.fill("#source textarea", "\n".join(["Eins"] * 9))
    places = [visit.page.locator(each).bounding_box() for each in ("#go", "#copy")]
    assert places[0]["y"] == pytest.approx(places[1]["y"], abs=1)


def test_an_example_is_one_press_away(visit: Any):
    visit.page.locator("#examples button").first.click()
    visit.page.wait_for_selector(".explorer .map td[aria-label]")
    assert visit.page.input_value("#source textarea")
    assert visit.page.input_value("#target textarea")


def test_another_alternative_takes_the_place_of_the_first(visit: Any):
    first = visit.translate(TEXT)
    other = visit.page.locator(".alternatives button").nth(1)
    text = other.locator(".text").inner_text()
    other.click()
    visit.page.wait_for_function(
        "text => document.querySelector('#target textarea').value === text", arg=text
    )
    assert text != first
    assert other.get_attribute("aria-pressed") == "true"


@on_both
def test_beam_and_alternatives_follow_each_other(visit: Any):
    visit.open_options()
    alternatives = visit.page.get_by_label("number input for Alternatives")
    beam_size = visit.page.get_by_label("number input for Beam size")
    beam_size.fill("2")
    beam_size.press("Tab")
    visit.until_value(alternatives, "2")
    visit.translate(TEXT)
    assert visit.page.locator(".alternatives button").count() <= 2
    assert visit.fits


@on_both
def test_presets_set_the_options_and_show_those_that_matter(visit: Any):
    page = visit.page
    visit.open_options()
    temperature = page.get_by_label("number input for Temperature")
    assert not temperature.is_visible()
    best = page.get_by_role("radio", name="Best")
    assert best.is_checked()
    page.get_by_role("radio", name="Creative").check()
    temperature.wait_for()
    visit.until_value(temperature, "0.9")
    visit.until_checked(page.get_by_label("Random sampling"), is_on=True)
    assert visit.fits
    visit.translate(TEXT)
    page.get_by_role("radio", name="Fast").check()
    temperature.wait_for(state="hidden")
    visit.until_value(page.get_by_label("number input for Beam size"), "1")
    visit.until_value(page.get_by_label("number input for Alternatives"), "1")
    assert visit.fits


def test_a_translation_begins_as_the_visitor_says_until_the_page_is_cleared(visit: Any):
    visit.open_options()
    prefix = visit.page.get_by_label("Forced prefix")
    prefix.fill("Yesterday ")
    assert visit.translate(TEXT).startswith("Yesterday ")
    visit.page.click("#clear")
    visit.page.wait_for_selector(".explorer .empty")
    visit.until_value(prefix, "")


def test_an_impossible_option_is_a_sentence_in_the_page(visit: Any):
    visit.open_options()
    visit.page.get_by_label("Random sampling").check()
    visit.page.get_by_label("Seed").wait_for()
    visit.settle()
    visit.page.get_by_label("Seed").fill("-1")
    visit.page.fill("#source textarea", TEXT)
    visit.page.click("#go")
    visit.page.wait_for_selector("[role=alert]")
    assert "seed = -1" in visit.page.inner_text("[role=alert]")


@on_both
def test_an_error_is_a_sentence_in_the_page(visit: Any):
    visit.page.click("#go")
    visit.page.wait_for_selector("[role=alert]")
    assert visit.page.inner_text("[role=alert]").startswith("There is nothing to translate yet")
    visit.translate(TEXT)
    assert visit.page.locator("[role=alert] >> visible=true").count() == 0


def test_markup_stays_text(visit: Any):
    text = "<img src=x onerror=alert(1)> ${alert(2)} {{alert(3)}} <script>alert(4)</script>"
    visit.translate(text)
    visit.ask(0)
    visit.page.fill(".steering .own input", text)
    visit.page.press(".steering .own input", "Enter")
    visit.page.wait_for_function(
        "document.querySelector('#target textarea').value.includes('alert')"
    )
    visit.page.wait_for_selector(".steering .place", state="hidden")
    visit.page.select_option(".explorer .unit", "pieces")
    visit.switch("Cross layer 1: switch all heads")
    assert visit.page.locator("img[src=x]").count() == 0
    assert visit.page.input_value("#source textarea") == text


@on_both
def test_a_long_word_does_not_push_the_page_sideways(visit: Any):
    visit.translate("Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamten" * 2)
    assert visit.fits
    visit.page.click("#clear")
    visit.open_options()
    visit.page.get_by_label("Forced prefix").fill("Danubesteamship" * 8)
    visit.translate(TEXT)
    beyond = visit.page.evaluate(
        """[...document.querySelectorAll('.card .line button')].filter((e) => {
            const [own, card] = [e, e.closest('.card')].map((e) => e.getBoundingClientRect().right);
            return own > card;
        }).map((e) => e.textContent)"""
    )
    assert beyond == []


def test_clear_empties_the_page(visit: Any):
    visit.translate(TEXT)
    visit.page.click("#clear")
    visit.page.wait_for_selector(".explorer .empty")
    assert visit.page.input_value("#source textarea") == ""
    assert visit.page.input_value("#target textarea") == ""
    assert visit.page.locator(".alternatives button").count() == 0


@on_both
def test_light_and_dark_can_be_switched(visit: Any):
    def shade() -> str:
        return visit.page.evaluate("getComputedStyle(document.body).backgroundColor")

    before = shade()
    visit.page.get_by_label("Switch between light and dark").click()
    visit.page.wait_for_function(
        "before => getComputedStyle(document.body).backgroundColor !== before", arg=before
    )


@on_both
def test_every_control_has_a_name(visit: Any):
    visit.open_options()
    visit.page.get_by_label("Random sampling").check()
    visit.page.get_by_label("number input for Temperature").wait_for()
    visit.translate(TEXT)
    nameless = visit.page.evaluate(
        """[...document.querySelectorAll('main button, main input, main select, main textarea')]
        .filter((e) => e.checkVisibility())
        .filter((e) => !(e.ariaLabel || e.labels?.length || e.innerText?.trim() || e.title))
        .map((e) => e.outerHTML.slice(0, 160))"""
    )
    assert nameless == []


@on_both
def test_a_link_opens_the_page_with_its_text(visit: Any, url: str):
    page = visit.page
    visit.translate(TEXT)
    page.click("#link")
    page.wait_for_function("location.hash.includes('text=')")
    page.wait_for_function("document.querySelector('#link').innerText.trim() === 'Copied'")
    page.wait_for_function("document.querySelector('#link').innerText.trim() === 'Link'")
    link = page.url
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_function("document.querySelector('#source textarea')?.value")
    assert page.input_value("#source textarea") == TEXT
    page.goto("about:blank")
    page.goto(f"{url}#model=no%2Fsuch&text=%3Cb%3EHallo")
    page.wait_for_function("document.querySelector('#source textarea')?.value")
    assert page.input_value("#source textarea") == "<b>Hallo"
    assert page.input_value("#model input") != "no/such"
    assert visit.fits


def test_a_long_link_is_not_cut_inside_a_character(visit: Any, url: str):
    text = "a" + "😀" * (MAX_TEXT_CHARS // 2 + 100)
    page = visit.page
    for given, kept in ((text, text), (text * 2, (text * 2)[:MAX_TEXT_CHARS])):
        page.goto("about:blank")
        page.goto(f"{url}#text={quote(given)}")
        page.wait_for_function("document.querySelector('#source textarea')?.value")
        assert page.input_value("#source textarea") == kept


NO_CLIPBOARD = "Object.defineProperty(navigator, 'clipboard', { value: undefined })"
"""As on a page that comes over http from another machine."""


def _press(page: Any, button: str, said: str) -> None:
    page.click(button)
    page.wait_for_function(f"document.querySelector('{button}').innerText.trim() === '{said}'")


def test_without_a_clipboard_the_selection_is_copied(visit: Any):
    translation = visit.translate(TEXT)
    visit.page.evaluate(NO_CLIPBOARD)
    for button, said in (("#copy", translation), ("#link", "#model=")):
        _press(visit.page, button, "Copied")
        visit.page.fill("#source textarea", "")
        visit.page.focus("#source textarea")
        visit.page.keyboard.press("Control+V")
        assert said in visit.page.input_value("#source textarea")


@on_both
def test_a_browser_that_copies_nothing_is_not_said_to_have_copied(visit: Any):
    translation = visit.translate(TEXT)
    visit.page.evaluate(f"{NO_CLIPBOARD}; document.execCommand = () => false")
    _press(visit.page, "#copy", "Press Ctrl+C")
    field = visit.page.locator("#target textarea:focus:read-only")
    chosen = "field => field.value.slice(field.selectionStart, field.selectionEnd)"
    assert field.evaluate(chosen) == translation
    assert visit.fits
    _press(visit.page, "#link", "See address bar")
    assert "#model=" in visit.page.url
    assert visit.fits


def test_opening_the_page_asks_the_model_nothing(visit: Any):
    asked = []
    visit.page.on("request", lambda request: asked.append(request.url))
    visit.page.reload()
    visit.page.wait_for_selector("#source textarea")
    visit.page.wait_for_timeout(1500)
    assert [each for each in asked if "/queue/join" in each or "/run/" in each] == []


def test_a_control_moved_by_hand_leaves_the_preset(visit: Any):
    visit.open_options()
    best = visit.page.get_by_role("radio", name="Best")
    assert best.is_checked()
    beam_size = visit.page.get_by_label("number input for Beam size")
    beam_size.fill("2")
    beam_size.press("Tab")
    visit.until_checked(best, is_on=False)

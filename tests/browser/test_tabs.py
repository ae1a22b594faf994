"""What a visitor does on the tabs beside the first, on a laptop and a phone, by day and by night.

Every test also fails on a console message, a failed request, or one to another host.
"""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.test_page import TEXT, everywhere, on_both

pytestmark = pytest.mark.browser

MARKUP = "<img src=x onerror=alert(1)> ${alert(2)} {{alert(3)}} <script>alert(4)</script>"
PAIRS = "id,de,en\n" + "".join(
    f"{n},Ein Hund rennt im Schnee.,A dog runs in the snow.\n" for n in range(12)
)


@everywhere
def test_two_ways_stand_side_by_side(visit: Any):
    visit.compare(TEXT)
    page = visit.page
    said = [each.inner_text() for each in page.locator(".said").all()]
    assert len(said) == 2
    assert all(said)
    is_same = said[0] == said[1]
    assert (page.locator(".said mark").count() == 0) is is_same
    assert page.locator("#comparison tbody tr").count() == 2
    assert "perplexity" in page.inner_text("#comparison table")
    assert visit.fits
    visit.keep_picture("compare")


def test_differences_are_marked(visit: Any):
    visit.open_tab("Compare")
    visit.open_options("B")
    visit.page.locator("#options-b").get_by_label("Forced prefix").fill("Yesterday ")
    visit.compare(TEXT)
    marked = visit.page.locator("[aria-label='Translation B'] mark").all_inner_texts()
    assert any("Yesterday" in text for text in marked)


def test_an_impossible_comparison_is_a_sentence(visit: Any):
    visit.open_tab("Compare")
    visit.page.click("#compare-go")
    visit.page.wait_for_selector("[role=alert]:visible")
    assert "nothing to translate" in visit.page.inner_text("[role=alert]:visible")


@everywhere
def test_a_file_is_translated_and_measured(visit: Any):
    visit.translate_file(PAIRS, "pairs.csv")
    page = visit.page
    assert page.input_value("#source-column input") == "de"
    assert page.input_value("#reference-column input") == "en"
    assert page.locator("#file-report .scores dt").all_inner_texts() == ["BLEU", "chrF"]
    assert page.locator("#file-report tbody tr").count() == 10
    with page.expect_download() as waiting:
        page.click("#file-download")
    assert waiting.value.suggested_filename == "translation.csv"
    lines = waiting.value.path().read_text().splitlines()
    assert lines[0] == "id,de,en,translation"
    assert len(lines) == 13
    assert visit.fits
    visit.keep_picture("files")


SHEET = "[...document.styleSheets].find(s => s.ownerNode?.textContent.includes('#tabs .tab-con'))"


@pytest.mark.parametrize("visit", ["phone light"], indirect=True)
def test_tabs_are_counted_again_when_the_style_comes_late(visit: Any):
    """As on a slow machine, where Gradio counts what fits before our letters are set."""
    page, tabs = visit.page, visit.page.get_by_role("tab")
    page.set_viewport_size({"width": 340, "height": 700})
    page.evaluate(f"() => {{ {SHEET}.disabled = true; dispatchEvent(new Event('resize')) }}")
    expect(tabs).not_to_have_count(4)
    page.evaluate(f"() => {{ {SHEET}.disabled = false }}")
    expect(tabs).to_have_count(4)


@pytest.mark.parametrize("visit", ["phone light"], indirect=True)
def test_all_tabs_fit_a_small_phone(visit: Any):
    visit.page.set_viewport_size({"width": 340, "height": 700})
    visit.page.reload()
    visit.page.wait_for_selector("#source textarea")
    visit.settle()
    assert visit.page.get_by_role("tab").all_inner_texts() == [
        "Translate",
        "Compare",
        "Files",
        "Learn",
    ]


def test_columns_are_asked_for_where_there_are_some(visit: Any):
    page = visit.page
    visit.open_tab("Files")
    asked = ("#source-column", "#reference-column", "#has-header", "#file-cancel")
    assert not any(page.is_visible(each) for each in asked)
    visit.translate_file(PAIRS, "pairs.csv")
    assert [page.is_visible(each) for each in asked] == [True] * 4
    page.click("#upload [aria-label='Clear'], #upload [aria-label='Remove this file']")
    page.wait_for_selector("#source-column", state="detached")
    assert not any(page.is_visible(each) for each in asked)


def test_a_long_file_shows_progress_and_can_be_cancelled(visit: Any):
    page = visit.page
    line = "Ein Hund rennt im Schnee, " * 5 + "und ein Mann schaut zu.\n"
    visit.choose_file(
        line * 3000, "long.txt"
    )  # a minute's work, so that a slow robot sees it going on
    page.wait_for_selector("#file-cancel")
    assert not page.is_visible("#source-column, #reference-column")  # there is one
    for wait_ms in (0, 100, 200, 400):
        page.click("#file-go")
        page.wait_for_selector("#file-report progress")
        said = page.inner_text("#file-report [role=status]")
        assert re.fullmatch(r"[\d,]+ of 3,000 lines.*", said)
        page.wait_for_timeout(wait_ms)
        page.click("#file-cancel")
        page.wait_for_selector("#file-report progress", state="detached")
        page.wait_for_timeout(500)  # what the job said last arrives now, if it does
        assert not page.locator("#file-report progress").count()
    visit.open_tab("Translate")
    assert visit.translate(TEXT)


def test_a_file_that_cannot_be_read_is_a_sentence(visit: Any):
    visit.choose_file("de\ten\nHund\n", "torn.tsv")
    visit.page.wait_for_selector("[role=alert]:visible")
    assert "line 2: 1 columns" in visit.page.inner_text("[role=alert]:visible")


def test_markup_in_a_file_stays_text(visit: Any):
    visit.translate_file(f"de\ten\n{MARKUP}\t{MARKUP}\n", "<b>x.tsv")
    page = visit.page
    assert page.locator("img[src=x]").count() == 0
    assert MARKUP in page.inner_text("#file-report table")
    visit.compare(MARKUP)
    assert page.locator("img[src=x]").count() == 0


@everywhere
def test_learning_shows_pieces_positions_and_every_shape(visit: Any):
    visit.translate(TEXT)
    visit.learn()
    page = visit.page
    assert TEXT in page.inner_text("#network")
    assert page.locator("#network .stage").count() > 6
    assert page.evaluate("document.querySelector('#positions canvas').width") > 1
    assert visit.fits
    visit.keep_picture("learn")


@on_both
def test_merges_can_be_stepped_through(visit: Any):
    visit.learn()
    page = visit.page
    page.fill("#pieces-text textarea", "Hunde rennen")
    page.wait_for_function("document.querySelectorAll('#pieces .word').length === 2")
    at_end = page.locator("#pieces .piece").count()
    page.locator("#pieces .step").fill("0")
    n_bytes = len(b"Hunde rennen")
    assert page.locator("#pieces .piece").count() in (n_bytes, n_bytes + 1)  # the space in front
    page.get_by_label("Next merge").click()
    assert page.locator("#pieces .piece").count() < n_bytes + 1
    assert page.locator("#pieces .joined").count() > 0
    page.get_by_role("button", name="Play").click()
    page.wait_for_function(
        "n => document.querySelectorAll('#pieces .piece').length === n", arg=at_end
    )
    assert "This is the model's input" in page.inner_text("#pieces .count")


def test_bytes_that_are_no_character_stay_readable(visit: Any):
    visit.learn()
    page = visit.page
    page.fill("#pieces-text textarea", "ഞാൻ „du“")
    page.wait_for_function("document.querySelectorAll('#pieces .word').length > 1")
    slider, seen = page.locator("#pieces .step"), set()
    for step in range(int(slider.get_attribute("max") or 0) + 1):
        slider.fill(str(step))
        seen |= set(page.locator("#pieces .byte").all_inner_texts())
    assert {"<E0>", "<E2 80>"} <= seen
    assert all(re.fullmatch(r"<[0-9A-F]{2}( [0-9A-F]{2})*>", each) for each in seen)


@on_both
def test_pieces_run_as_their_script_does(visit: Any):
    """Bytes, too, of which the first is shown in Latin letters: at every step the same way."""
    visit.learn()
    page = visit.page
    for text, is_rtl in (("كلب يركض", True), ("3 כלבים רצים", True), ("Hunde 3", False)):
        page.fill("#pieces-text textarea", text)
        n_words = len(text.split())
        page.wait_for_function(
            "text => document.querySelector('#pieces .words span[hidden]')?.textContent === text",
            arg=text,
        )
        for step in ("0", page.get_attribute("#pieces .step", "max")):
            page.locator("#pieces .step").fill(step)
            words = [page.locator("#pieces .word").nth(n).bounding_box() for n in range(n_words)]
            pieces = page.locator("#pieces .word").last.locator(".piece")
            first, second = (
                (pieces.nth(n).bounding_box() for n in (0, 1)) if step == "0" else words[:2]
            )
            assert (words[0]["x"] > words[1]["x"]) == is_rtl
            assert (first["x"] > second["x"]) == is_rtl
    page.fill("#pieces-text textarea", "كلب يركض في الثلج.")
    page.wait_for_function("document.querySelectorAll('#pieces .word').length > 3")
    visit.keep_picture("pieces-right-to-left")


def test_a_text_too_long_to_watch_is_a_sentence(visit: Any):
    visit.learn()
    visit.page.fill("#pieces-text textarea", "Hund " * 200)
    visit.page.wait_for_selector("#pieces .empty:not([hidden])")
    assert "enter a short sentence" in visit.page.inner_text("#pieces .empty")


@on_both
def test_every_control_of_every_tab_has_a_name(visit: Any):
    visit.translate(TEXT)
    for name in ("Compare", "Files", "Learn"):
        visit.open_tab(name)
        visit.page.wait_for_timeout(400)
        nameless = visit.page.evaluate(
            """[...document.querySelectorAll('main button, main input, main select, main textarea')]
            .filter((e) => e.checkVisibility())
            .filter((e) => !(e.ariaLabel || e.labels?.length || e.innerText?.trim() || e.title))
            .map((e) => e.outerHTML.slice(0, 160))"""
        )
        assert nameless == []


def test_tabs_are_reached_by_keyboard(visit: Any):
    page = visit.page
    page.get_by_role("tab", name="Translate").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#compare-source textarea:visible")

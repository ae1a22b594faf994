"""Journeys on the Compare, Files and Learn tabs.

Every test also fails on a console message, a failed request, or one to another host.
"""

import re
from typing import Any

import pytest

from tests.browser.test_translate import TEXT

pytestmark = pytest.mark.browser

PAIRS = "id,de,en\n" + "".join(
    f"{n},Ein Hund rennt im Schnee.,A dog runs in the snow.\n" for n in range(12)
)


def test_two_ways_are_compared_and_merges_are_stepped_through(visit: Any):
    page = visit.page
    visit.open_tab("Compare")
    page.click("#compare-go")
    page.wait_for_selector("[role=alert]:visible")
    assert "nothing to translate" in page.inner_text("[role=alert]:visible")
    visit.open_options("B")
    page.locator("#options-b").get_by_label("Forced prefix").fill("Yesterday ")
    visit.compare(TEXT)
    assert page.locator(".said").count() == page.locator("#comparison tbody tr").count() == 2
    marked = page.locator("[aria-label='Translation B'] mark").all_inner_texts()
    assert any("Yesterday" in text for text in marked)
    assert "perplexity" in page.inner_text("#comparison table")
    outdated = page.locator(".compared")
    assert not outdated.is_visible()
    page.fill("#compare-source textarea", "Zwei Frauen")
    assert outdated.inner_text() == "The text has changed since: compare again."
    page.fill("#compare-source textarea", TEXT)
    assert not outdated.is_visible()
    visit.learn()
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
    page.fill("#pieces-text textarea", "ഞാൻ „du“")
    page.wait_for_function("document.querySelector('#pieces .words').innerText.includes('du')")
    slider, seen = page.locator("#pieces .step"), set()
    for step in range(int(slider.get_attribute("max") or 0) + 1):
        slider.fill(str(step))
        seen |= set(page.locator("#pieces .byte").all_inner_texts())
    assert {"<E0>", "<E2 80>"} <= seen
    page.fill("#pieces-text textarea", "Hund " * 200)
    page.wait_for_selector("#pieces .empty:not([hidden])")
    assert "enter a short sentence" in page.inner_text("#pieces .empty")


def test_files_are_translated_measured_and_cancelled(visit: Any):
    page = visit.page
    visit.choose_file("de\ten\nHund\n", "torn.tsv")
    page.wait_for_selector("[role=alert]:visible")
    assert "line 2: 1 columns" in page.inner_text("[role=alert]:visible")
    asked = ("#source-column", "#reference-column", "#has-header", "#file-cancel")
    assert not any(page.is_visible(each) for each in asked)
    remove = "#upload [aria-label='Clear'], #upload [aria-label='Remove this file']"
    page.click(remove)
    page.wait_for_selector("#upload input[type=file]", state="attached")
    visit.translate_file(PAIRS, "pairs.csv")
    assert all(page.is_visible(each) for each in asked)
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
    page.click(remove)
    page.wait_for_selector("#source-column", state="detached")
    assert not any(page.is_visible(each) for each in asked)
    line = "Ein Hund rennt im Schnee, " * 5 + "und ein Mann schaut zu.\n"
    visit.choose_file(line * 3000, "long.txt")  # a minute's work, which a slow robot sees going on
    page.wait_for_selector("#file-cancel")
    assert not page.is_visible("#source-column, #reference-column")  # there is one

    def delay(route: Any) -> None:  # as on a busy machine
        page.wait_for_timeout(700)
        route.continue_()

    page.route("**/gradio_api/cancel", delay)
    for wait_ms in (0, 100, 400):  # more jobs than an address may have at a time
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

"""Journeys on the Compare, Files and Learn tabs.

Every test also fails on a console message, a failed request, or one to another host.
"""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from hubnmt.translator import Translator
from hubnmt.ui.services.registry import ModelRegistry
from tests.browser.conftest import TIMEOUT_MS, Visit
from tests.browser.test_translate import TEXT
from tests.conftest import BUNDLED
from tests.page import serving

pytestmark = pytest.mark.browser

PAIRS = "id,de,en\n" + "".join(
    f"{n},Ein Hund rennt im Schnee.,A dog runs in the snow.\n" for n in range(12)
)


def test_two_ways_are_compared_and_merges_are_stepped_through(visit: Any):
    page = visit.page
    visit.translate("Zwei Frauen lachen.")
    visit.open_tab("Compare")
    visit.until_value(page.locator("#compare-source textarea"), "Zwei Frauen lachen.")
    page.fill("#compare-source textarea", "")
    page.click("#compare-go")
    page.wait_for_selector("[role=alert]:visible")
    assert "nothing to translate" in page.inner_text("[role=alert]:visible")
    visit.open_options("B")
    page.locator("#options-b").get_by_label("Forced prefix").fill("Yesterday ")
    visit.compare(TEXT)
    assert page.locator(".said").count() == 2
    marked = page.locator("[aria-label='Translation B'] mark").all_inner_texts()
    assert any("Yesterday" in text for text in marked)
    assert "Beam size 1, prefix “Yesterday ”" in page.inner_text("[aria-label='Translation B']")
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
    page.locator("#pieces").get_by_role("button", name="Play").click()
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


def _record(step: int, translation: str) -> str:
    rows = f"| source | reference | translation |\n|---|---|---|\n| Hund | dog | {translation} |"
    return f"\n\n## Step {step:,}\n\n{rows}\n"


def test_the_numbers_behind_one_sentence_are_read_and_moved(
    browser: Any, bundled_model: Path, tmp_path: Path
):
    for file in bundled_model.iterdir():
        shutil.copyfile(file, tmp_path / file.name)
    record = '{{"step": {}, "loss": 2.5, "dev_loss": 3.5, "bleu": 7, "chrf": 9}}\n'
    (tmp_path / "metrics.jsonl").write_text(record.format(3) + record.format(9))
    (tmp_path / "samples.md").write_text("# Samples" + _record(3, "a cat") + _record(9, "a <b>dog"))
    registry = ModelRegistry(Translator.from_pretrained, {BUNDLED: tmp_path})
    with serving(registry) as url:
        visit = Visit(browser.new_page(viewport={"width": 390, "height": 844}), url, "phone light")
        page = visit.page
        page.set_default_timeout(TIMEOUT_MS)
        said = visit.translate(TEXT)
        visit.learn()

        page.get_by_role("button", name="4. Softmax").click()
        page.locator("#layer .field").last.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        assert re.search(r"“.+” to “.+”: [\d.]+%", page.inner_text("#layer .readout"))
        assert page.inner_text("#layer .row-names span >> nth=0") == "<bos>"
        page.select_option("#layer .kind", "encoder")
        page.wait_for_function(
            "document.querySelector('#layer .row-names span').innerText !== '<bos>'"
        )
        page.get_by_role("button", name="7. Feed-forward").click()
        assert page.locator("#layer figure").count() == 3

        page.locator("#next-token .tokens button").nth(1).click()
        page.wait_for_function(
            "document.querySelector('#next-token .question').innerText.startsWith('After')"
        )
        assert not page.locator("#next-token .removed").count()
        page.fill("#next-token [name=top_k]", "3")
        page.wait_for_function("document.querySelectorAll('#next-token .removed').length === 8")

        first = page.inner_text("#beam tbody tr >> nth=0")
        assert said in first
        page.select_option("#beam .size", "2")
        page.wait_for_function(
            "document.querySelectorAll('#beam [data-step=\"0\"].kept').length < 3"
        )
        page.locator("#beam .tree").focus()
        for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
            page.keyboard.press(key)
        assert "score" in page.inner_text("#beam .readout")
        assert page.locator("#beam .node.on-path").count() > 1

        assert page.locator("#history-charts svg").count() == 2
        assert page.inner_text("#history mark") == "<b>dog"
        page.get_by_label("Previous validation").click()
        assert page.inner_text("#history .said") == "a cat"
        assert "Step 3 of 9" in page.inner_text("#history .count")
        assert visit.fits
        assert visit.complaints == []
        page.close()


def test_files_are_translated_and_cancelled(visit: Any):
    page = visit.page
    visit.choose_file("de\ten\nHund\n", "torn.tsv")
    page.wait_for_selector("[role=alert]:visible")
    assert "line 2: 1 columns" in page.inner_text("[role=alert]:visible")
    asked = ("#source-column", "#has-header", "#file-cancel")
    assert not any(page.is_visible(each) for each in asked)
    remove = "#upload [aria-label='Clear'], #upload [aria-label='Remove this file']"
    page.click(remove)
    page.wait_for_selector("#upload input[type=file]", state="attached")
    visit.translate_file(PAIRS, "pairs.csv")
    assert all(page.is_visible(each) for each in asked)
    with page.expect_download() as waiting:
        page.click("#file-download")
    assert waiting.value.suggested_filename == "pairs.en.csv"
    lines = waiting.value.path().read_text().splitlines()
    assert lines[0] == "id,de,en,translation"
    assert len(lines) == 13
    page.click(remove)
    page.wait_for_selector("#source-column", state="detached")
    assert not any(page.is_visible(each) for each in asked)
    line = "Ein Hund rennt im Schnee, " * 5 + "und ein Mann schaut zu.\n"
    visit.choose_file(line * 3000, "long.txt")  # a minute's work, which a slow robot sees going on
    page.wait_for_selector("#file-cancel")
    assert not page.is_visible("#source-column")  # there is one
    for _ in range(2):
        page.click("#file-go")
        page.wait_for_selector("#file-report progress")
        said = page.inner_text("#file-report [role=status]")
        assert re.fullmatch(r"[\d,]+ of 3,000 lines.*", said)
        page.wait_for_selector("#file-report progress:not([value='0'])")
        page.click("#file-cancel")
        page.wait_for_selector("#file-report progress", state="detached")
    said = page.inner_text("#file-report [role=status]")
    n_done = int(re.match(r"([\d,]+) of 3,000 lines translated in .*, then cancelled", said)[1])  # type: ignore[index]
    with page.expect_download() as waiting:
        page.click("#file-download")
    assert waiting.value.suggested_filename == "long.en.txt"
    assert len(waiting.value.path().read_text().splitlines()) == n_done > 0
    assert "Error" not in page.inner_text("body")
    visit.open_tab("Translate")
    assert visit.translate(TEXT)

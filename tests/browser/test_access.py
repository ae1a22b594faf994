"""No serious finding of axe-core on any tab, by day and by night.

Source: https://github.com/dequelabs/axe-core; the script comes with `axe-playwright-python`.
"""

from typing import Any

import pytest

axe = pytest.importorskip("axe_playwright_python.sync_playwright")

pytestmark = pytest.mark.browser

TEXT = "Ein kleines Mädchen klettert in ein Spielhaus aus Holz."


def _findings(page: Any) -> list[str]:
    found = axe.Axe().run(page).response["violations"]
    return [
        f"{each['impact']} {each['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


@pytest.mark.parametrize(
    "visit", ["laptop light", "laptop dark", "phone light", "phone dark"], indirect=True
)
def test_no_tab_shuts_anybody_out(visit: Any):
    page = visit.page
    visit.translate(TEXT)
    visit.open_options()
    visit.ask(2)
    visit.switch("Cross layer 1: switch all heads")
    page.locator(".explorer .queries button").nth(2).click()
    visit.keep_picture("inside")
    page.click("#card summary")
    page.wait_for_selector("#card table:visible")
    assert visit.fits
    assert _findings(page) == []
    visit.compare(TEXT)
    assert _findings(page) == []
    visit.translate_file("de,en\nEin Hund.,A dog.\n", "pairs.csv")
    assert _findings(page) == []
    visit.learn()
    assert _findings(page) == []


def test_a_sentence_in_a_card_shuts_nobody_out(visit: Any):
    visit.translate(TEXT)
    visit.page.evaluate(
        "document.querySelectorAll('.card .message').forEach((e) => {"
        " e.textContent = 'There is no such word.'; e.hidden = false; })"
    )
    assert _findings(visit.page) == []


def test_an_error_shuts_nobody_out(visit: Any):
    visit.page.click("#go")
    visit.page.wait_for_selector("[role=alert]")
    assert _findings(visit.page) == []

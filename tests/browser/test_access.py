"""Every tab, on a laptop and a phone, light and dark, fits and is accessible by axe-core.

Leaves the screenshots. Source: https://github.com/dequelabs/axe-core; the script comes with
`axe-playwright-python`.
"""

from typing import Any

import pytest

from tests.browser.test_tabs import PAIRS
from tests.browser.test_translate import TEXT

axe = pytest.importorskip("axe_playwright_python.sync_playwright")

pytestmark = pytest.mark.browser


def _check(visit: Any, view: str) -> None:
    visit.keep_picture(view)
    assert visit.fits
    found = axe.Axe().run(visit.page).response["violations"]
    assert [
        f"{each['impact']} {each['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ] == []


@pytest.mark.parametrize("visit", ["laptop light", "phone dark"], indirect=True)
def test_no_tab_shuts_anybody_out(visit: Any):
    page = visit.page
    page.click("#go")
    page.wait_for_selector("[role=alert]:visible")
    _check(visit, "error")
    visit.translate(TEXT)
    visit.keep_picture("translate")
    visit.open_options()
    visit.ask(2)
    visit.inside("Look inside")
    page.locator(".explorer .queries button").nth(2).click()
    page.click("#card summary")
    page.wait_for_selector("#card table:visible")
    _check(visit, "inside")
    visit.compare(TEXT)
    _check(visit, "compare")
    visit.translate_file(PAIRS, "pairs.csv")
    _check(visit, "files")
    visit.learn()
    assert page.evaluate("document.querySelector('#positions canvas').width") > 1
    _check(visit, "learn")

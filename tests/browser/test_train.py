"""The Train tab: from the sample set to a model that translates, with the page restarted."""

import re
from pathlib import Path
from typing import Any

import pytest

from hubnmt.translator import Translator
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.translate import Handlers
from tests.browser.conftest import Visit
from tests.conftest import BUNDLED
from tests.page import serving

pytestmark = [pytest.mark.browser, pytest.mark.slow]

WAIT_MS = 120_000


@pytest.fixture
def handlers(bundled_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Handlers:
    monkeypatch.setenv("HUBNMT_RUNS", str(tmp_path / "runs"))
    registry = ModelRegistry(Translator.from_pretrained, {BUNDLED: bundled_model}, allow_local=True)
    return Handlers(registry)


def _visit(browser: Any, url: str) -> Visit:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(WAIT_MS)
    visit = Visit(context.new_page(), url, "train")
    visit.open_tab("Train")
    return visit


def test_a_model_is_made_of_the_sample_set_and_opened(browser: Any, handlers: Handlers):
    with serving(handlers) as url:
        page = (visit := _visit(browser, url)).page
        page.click("#train-sample")
        page.wait_for_selector("#train-report .train-table")
        page.click("#train-recipe-more >> text=Recipe")
        visit.until_value(page.locator("#train-recipe textarea"), re.compile("vocab_size"))
        recipe = page.input_value("#train-recipe textarea")
        recipe = re.sub(r"(?m)^max_minutes = .*", "max_steps = 120\nn_threads = 1", recipe)
        recipe = re.sub(r"(?m)^eval_every = .*", "eval_every = 40", recipe)
        page.fill("#train-recipe textarea", recipe.replace("lr = ", "batch_tokens = 512\nlr = "))
        page.click("#train-start")
        page.wait_for_selector("#train-charts svg")
        page.click("#train-pause")
        page.wait_for_selector("#train-state .paused")
        visit.keep_picture("train")
        assert visit.complaints == []
        page.context.close()
    with serving(handlers) as url:  # restarted
        page = (visit := _visit(browser, url)).page
        page.click("#train-continue")
        page.wait_for_selector("#train-state .finished")
        page.wait_for_selector("#train-attention td")
        score, copies = (page.locator("#train-scores td").nth(n).inner_text() for n in (2, 5))
        assert float(score) > float(copies)
        page.click("#train-open-translate")
        page.wait_for_selector("#source textarea:visible")
        page.wait_for_function("document.body.innerText.includes('de-en-1/best')")
        assert visit.translate("Tom ist hier.")
        assert visit.complaints == []
        page.context.close()

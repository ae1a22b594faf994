"""The Train tab: from the sample set to a model that translates, with the page restarted."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from hubnmt.translator import Translator
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.translate import Handlers
from tests.browser.conftest import Visit
from tests.conftest import BUNDLED
from tests.hub import REPO
from tests.hub_server import HubServer
from tests.page import serving

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)]

WAIT_MS = 180_000


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


def test_the_sample_set_becomes_a_model_on_the_hub(
    browser: Any, handlers: Handlers, hub: HubServer
):
    with serving(handlers) as url:
        page = (visit := _visit(browser, url)).page
        page.click("#train-sample")
        page.click("#train-recipe-more >> text=Recipe")
        editor = page.locator("#train-recipe .cm-content", has_text="vocab_size")
        recipe = editor.inner_text().replace("\n\n", "\n")
        recipe = re.sub(r"(?m)^max_minutes = .*", "max_steps = 80\nn_threads = 1", recipe)
        recipe = re.sub(r"(?m)^eval_every = .*", "eval_every = 40", recipe)
        editor.fill(recipe.replace("lr = ", "batch_tokens = 256\nlr = "))
        page.click("#train-start")
        page.wait_for_selector("#train-charts svg")
        page.click("#train-pause")
        visit.until_value(page.locator("#train-state textarea"), re.compile("^paused"))
        visit.keep_picture("train")
        assert visit.complaints == []
        page.context.close()
    with serving(handlers) as url:  # restarted
        page = (visit := _visit(browser, url)).page
        page.click("#train-continue")
        visit.until_value(page.locator("#train-state textarea"), re.compile("^finished"))
        page.wait_for_selector("#train-attention td")
        score, copies = (page.locator("#train-scores td").nth(n).inner_text() for n in (2, 5))
        assert float(score) > float(copies)
        page.click("#train-open-translate")
        page.wait_for_selector("#source textarea:visible")
        page.wait_for_function("document.body.innerText.includes('de-en-1/best')")
        assert visit.translate("Tom ist hier.")
        visit.open_tab("Train")
        page.get_by_label("Hub repository").fill(REPO)
        page.click("#train-push")
        page.wait_for_selector("#train-pushed a")
        assert "model.safetensors" in hub.repo(REPO).files()
        assert hub.repo(REPO).private
        page.once("dialog", lambda dialog: dialog.accept())
        page.click("#train-delete")
        page.wait_for_selector("#train-actions button", state="hidden")
        assert not list(Path(os.environ["HUBNMT_RUNS"]).glob("*/recipe.toml"))
        assert [said for said in visit.complaints if "dialog" not in said] == []
        page.context.close()

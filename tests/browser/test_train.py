"""The Train tab: from the sample set to a model that translates, with the page restarted."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from hubnmt.translator import Translator
from hubnmt.ui.services.registry import ModelRegistry
from tests.browser.conftest import Visit
from tests.conftest import BUNDLED
from tests.hub import REPO, TOKEN
from tests.hub_server import HubServer, User
from tests.page import serving

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)]

WAIT_MS = 180_000


@pytest.fixture
def registry(bundled_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelRegistry:
    monkeypatch.setenv("HUBNMT_RUNS", str(tmp_path / "runs"))
    return ModelRegistry(Translator.from_pretrained, {BUNDLED: bundled_model}, allow_local=True)


def _visit(browser: Any, url: str) -> Visit:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(WAIT_MS)
    context.set_default_navigation_timeout(WAIT_MS)
    visit = Visit(context.new_page(), url, "train")
    visit.open_tab("Train")
    return visit


def _until_value(page: Any, field: str, value: str) -> None:
    page.wait_for_function(f"/^{value}/.test(document.querySelector('{field}').value)")


def _until_state(page: Any, state: str) -> None:
    _until_value(page, "#train-state textarea", state)


def test_the_sample_set_becomes_a_model_on_the_hub(
    browser: Any, registry: ModelRegistry, hub: HubServer
):
    with serving(registry) as url:
        page = (visit := _visit(browser, url)).page
        page.click("#train-sample")
        page.click("#train-recipe-more >> text=Recipe")
        editor = page.locator("#train-recipe .cm-content", has_text="vocab_size")
        recipe = editor.inner_text().replace("\n\n", "\n")
        recipe = re.sub(r"(?m)^max_minutes = .*", "max_steps = 160\nn_threads = 1", recipe)
        recipe = re.sub(r"(?m)^eval_every = .*", "eval_every = 40", recipe)
        editor.fill(recipe.replace("lr = ", "batch_tokens = 256\nlr = "))
        page.click("#train-start")
        page.wait_for_selector("#train-record-charts svg:visible")
        _until_state(page, r"training\n.*\d\d:\d\d left$")
        page.click("#train-pause")
        _until_state(page, "paused")
        visit.keep_picture("train")
        assert visit.complaints == []
        page.context.close()
    with serving(registry) as url:  # restarted
        page = (visit := _visit(browser, url)).page
        page.click("#train-continue")
        _until_state(page, "finished")
        page.wait_for_selector("#train-record td")
        table = page.inner_text("#train-scores")
        found = [re.search(rf"{name}\s+([\d.]+)", table) for name in ("at its best", "the source")]
        score, copies = (float(match[1]) for match in found if match)
        assert score > copies
        page.click("#train-open-translate")
        page.wait_for_selector("#source textarea:visible")
        page.wait_for_function("document.body.innerText.includes('de-en/best')")
        assert visit.translate("Tom ist hier.")
        visit.open_tab("Train")
        page.fill("#train-limits textarea", "Only short sentences.")
        page.get_by_label("Hub repository").fill(REPO)
        page.click("#train-push")
        page.click("#train-pushed a >> text=is on the Hub", trial=True)
        pushed = hub.repo(REPO)
        assert pushed.private
        card = pushed.files()["README.md"].decode()
        assert "Tatoeba" in card
        assert "## Limits\n\nOnly short sentences." in card
        page.click("#train-space")
        page.click("#train-pushed a >> text=is being built", trial=True)
        assert hub.repo(REPO, "space").private
        assert hub.repo(REPO, "space").secrets == {"HF_TOKEN": TOKEN}
        assert TOKEN not in page.content()
        runs = Path(os.environ["HUBNMT_RUNS"])
        texts = [path.read_bytes() for path in runs.rglob("*") if path.is_file()]
        assert not [text for text in texts if TOKEN.encode() in text]
        page.once("dialog", lambda dialog: dialog.accept())
        page.click("#train-delete")
        page.wait_for_selector("#train-actions button", state="hidden")
        assert {path.name for path in runs.rglob("*")} == {".data", ".turn"}
        assert [said for said in visit.complaints if "dialog" not in said] == []
        page.context.close()


PAIR = {"cy": "Brawddeg rhif {} am y tywydd heddiw.", "en": "Sentence number {} about the weather."}


@pytest.mark.filterwarnings("ignore:Gradio does not support OAuth")  # it simulates a sign-in
def test_on_a_space_the_owner_signs_in_and_publishes_a_run_of_the_terminal(
    browser: Any,
    registry: ModelRegistry,
    hub: HubServer,
    model_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    pytest.importorskip("itsdangerous")  # Spaces have it
    hub.store.users["mock-oauth-token-for-local-dev"] = User("user")
    pairs = [{name: text.format(n) for name, text in PAIR.items()} for n in range(40)]
    lines = "\n".join(json.dumps({"id": n, "translation": each}) for n, each in enumerate(pairs))
    configs = [{"config_name": name, "data_files": f"{name}.jsonl"} for name in ("cy-en", "test")]
    card = f"---\n{json.dumps({'configs': configs})}\n---\n".encode()
    files = {"README.md": card, "cy-en.jsonl": lines.encode(), "test.jsonl": b'{"a": 1}'}
    hub.store.put("someone/pairs", files, kind="dataset")
    shutil.copytree(model_folder, tmp_path / "runs" / "mine" / "best")
    (tmp_path / "runs" / "mine" / "status.json").write_text('{"state": "finished"}')
    for name, value in (
        ("HUBNMT_TRAIN", "1"),
        ("SPACE_AUTHOR_NAME", "user"),
        ("OAUTH_CLIENT_ID", "x"),
        ("HF_HOME", str(tmp_path)),
    ):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("huggingface_hub.hf_api.api.endpoint", hub.url)  # read at import
    registry.allow_local = False
    with serving(registry) as url:
        page = (visit := _visit(browser, url)).page
        page.click("#train-sample")
        page.wait_for_selector("text=sign in as the owner of this Space")
        assert page.locator("#train-runs input").input_value() == ""
        with page.expect_navigation():
            page.click("text=Sign in with Hugging Face")
        visit.open_tab("Train")
        page.wait_for_selector("text=Logout (user)")
        visit.until_value(page.locator("#train-runs input"), "mine (finished)")
        # The columns of a dataset are there to choose from.
        page.fill("#train-dataset input", "someone/pairs")
        page.press("#train-dataset input", "Enter")
        _until_value(page, "#train-dataset input", r"someone\/pairs:cy-en$")
        page.click("#train-columns input")
        assert page.locator("[role=option]").all_inner_texts() == ["id", "cy", "en"]
        page.click("#train-import")
        page.wait_for_selector("#train-report >> text=40 of 40 pairs are usable")
        visit.until_value(page.locator("#train-folder textarea"), re.compile("best$"))
        page.fill("#train-licence textarea", "cc-by-4.0")
        page.get_by_label("Hub repository").fill(REPO)
        page.get_by_label("Private").uncheck()
        page.click("#train-push")
        page.click("#train-pushed a >> text=is on the Hub", trial=True)
        assert b"license: cc-by-4.0" in hub.repo(REPO).files()["README.md"]
        page.click("#train-space")
        page.click("#train-pushed a >> text=is being built", trial=True)
        assert "training/train.py" in hub.repo(REPO, "space").files()
        page.context.close()

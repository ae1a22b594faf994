"""What the page suggests."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from hubnmt.checkpoint.folder import StoredModel, save_model
from hubnmt.hub.listing import Catalogue
from hubnmt.model import Transformer
from hubnmt.translator import Translator
from hubnmt.ui.services.catalogue import Search, find_reverse, read_search, suggest_models
from hubnmt.ui.services.registry import ModelRegistry
from tests.hub import REPO, read_folder
from tests.hub_server import HubServer

Make = Callable[..., ModelRegistry]


def test_the_hubs_models_are_suggested_with_what_is_known(
    hub: HubServer, model_folder: Path, make_registry: Make
):
    hub.store.put(REPO, read_folder(model_folder))
    hub.store.put("user/bare", {"README.md": b"---\ntags: [hubnmt]\n---\n"})
    suggested = suggest_models(make_registry(allow_hub=True), Catalogue())
    assert suggested[:2] == [("first", "first"), ("second", "second")]
    assert suggested[2:] == [
        ("user/bare", "user/bare"),
        (f"{REPO} (de to en, BLEU 41.2, 0 MB)", REPO),
    ]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("  german small ", Search("german small", "", "german small")),
        ("user/", Search("user/", "user", "")),
        ("user/ small", Search("user/ small", "user", "small")),
        *((each, None) for each in ("", "first", REPO, f"{REPO}@v1", f"{REPO}@..", "word" * 26)),
        *((each, None) for each in (None, "my-run", "./gone", "~", "runs/my run", "C:\\gone")),
    ],
)
def test_words_and_users_are_searched_for_but_no_models_and_folders(
    make_registry: Make,
    typed: str,
    found: Search | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-run").mkdir()
    assert read_search(make_registry(allow_hub=True, allow_local=True), typed) == found
    assert read_search(make_registry(allow_local=True), typed) is None


def test_the_model_that_translates_back_is_known_by_its_config(
    tiny_stored: StoredModel, tmp_path: Path
):
    """The page's own are known without opening them."""
    folders = {}
    for name, pair in {"there": ("de", "en"), "other": ("de", "fr"), "back": ("en", "de")}.items():
        config = dataclasses.replace(tiny_stored.model.config, src_lang=pair[0], tgt_lang=pair[1])
        folders[name] = tmp_path / name
        save_model(folders[name], dataclasses.replace(tiny_stored, model=Transformer(config)))
    registry = ModelRegistry(lambda name: Translator.from_pretrained(folders[name]), folders)
    assert find_reverse(registry, "there") == "back"
    assert find_reverse(registry, "back") == "there"
    assert find_reverse(registry, "other") == ""
    registry.get("back")
    (folders["back"] / "config.json").unlink()
    assert find_reverse(registry, "there") == ""

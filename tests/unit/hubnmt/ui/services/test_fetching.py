from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from hubnmt.errors import HubError
from hubnmt.hub.client import HubReference
from hubnmt.hub.listing import list_cached
from hubnmt.hub.pull import pull
from hubnmt.translator import Translator
from hubnmt.ui.services import registry
from hubnmt.ui.services.registry import load_bounded
from tests.hub import REPO, read_folder
from tests.hub_server import HubServer


@pytest.fixture
def stored(hub: HubServer, model_folder: Path) -> None:
    for name in (REPO, "user/second"):
        hub.store.put(name, read_folder(model_folder))


def _load(is_public: bool) -> Callable[[str], Translator]:
    return partial(load_bounded, load=Translator.from_pretrained, is_public=is_public)


def test_a_model_too_large_is_refused_by_what_the_hub_says(
    hub: HubServer, stored: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(registry, "MAX_MODEL_MB", 0.01)
    with pytest.raises(HubError, match=r"has 0 MB, over the limit of 0 MB"):
        _load(False)(REPO)
    assert hub.asked("GET /objects/") == []
    pull(HubReference(REPO))
    assert _load(False)(REPO).config.src_lang == "de"  # it is here already


def test_only_a_page_for_strangers_makes_room(
    hub: HubServer, stored: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(registry, "MAX_CACHE_MB", 0)
    for is_public, n_kept in ((False, 2), (True, 1)):
        for name in (REPO, "user/second"):
            _load(is_public)(name)
        assert len(list_cached()) == n_kept


def test_a_page_for_strangers_takes_no_large_tokenizers(
    hub: HubServer, stored: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(registry, "MAX_TOKENIZER_MIB", 0.001)
    with pytest.raises(HubError, match=r"tokenizer\.json is larger than the 0\.001 MiB"):
        _load(True)(REPO)
    assert _load(False)(REPO).config.src_lang == "de"

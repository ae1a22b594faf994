from pathlib import Path

import pytest

from hubnmt.errors import HubError
from hubnmt.hub import HubReference, list_cached, pull
from hubnmt.translator import Translator
from hubnmt.ui import fetching
from hubnmt.ui.fetching import BoundedLoad
from tests.hub import REPO, read_folder
from tests.hub_server import Fault, HubServer


@pytest.fixture
def stored(hub: HubServer, model_folder: Path) -> None:
    for name in (REPO, "user/second"):
        hub.store.put(name, read_folder(model_folder))


def _load(forgets: bool) -> BoundedLoad:
    return BoundedLoad(Translator.from_pretrained, forgets)


def test_a_model_too_large_is_refused_by_what_the_hub_says(
    hub: HubServer, stored: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(fetching, "MAX_MODEL_MB", 0.01)
    with pytest.raises(HubError, match=r"has 0 MB, this page fetches models of up to 0.01 MB"):
        _load(False)(REPO)
    assert hub.asked("GET /objects/") == []
    pull(HubReference(REPO))
    assert _load(False)(REPO).config.src_lang == "de"  # it is here already


def test_a_model_of_the_hub_or_of_this_machine_opens(
    hub: HubServer, stored: None, model_folder: Path
):
    assert _load(True)(REPO).config.src_lang == "de"
    asked = len(hub.requests)
    assert _load(True)(str(model_folder)).config.src_lang == "de"
    assert len(hub.requests) == asked


def test_only_a_page_for_strangers_makes_room(
    hub: HubServer, stored: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(fetching, "MAX_CACHE_MB", 0)
    for forgets, n_kept in ((False, 2), (True, 1)):
        for name in (REPO, "user/second"):
            _load(forgets)(name)
        assert len(list_cached()) == n_kept


def test_a_hub_in_trouble_is_said_by_whoever_fetches(hub: HubServer, stored: None):
    hub.faults.add(Fault(".", times=None, status=503))
    with pytest.raises(HubError, match="503"):
        _load(False)(REPO)

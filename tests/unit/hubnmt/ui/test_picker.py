"""What the page suggests."""

from collections.abc import Callable
from pathlib import Path

from hubnmt.hub import Catalogue, HubReference, pull
from hubnmt.ui.picker import suggest_models
from hubnmt.ui.registry import ModelRegistry
from tests.hub import REPO, read_folder
from tests.hub_server import Fault, HubServer

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


def test_the_same_page_asks_the_hub_once(hub: HubServer, make_registry: Make):
    registry, catalogue = make_registry(allow_hub=True), Catalogue()
    for _ in range(3):
        suggest_models(registry, catalogue)
    assert len(hub.asked("GET /api/models")) == 1


def test_a_hundred_models_take_one_request(hub: HubServer, make_registry: Make):
    for number in range(101):
        hub.store.put(f"user/m{number:03}", {"README.md": b"---\ntags: [hubnmt]\n---\n"})
    suggested = suggest_models(make_registry(allow_hub=True), Catalogue())
    assert [name for _, name in suggested[2:]] == [f"user/m{number:03}" for number in range(100)]
    assert len(hub.asked("GET /api/models")) == 1


def test_a_page_that_opens_no_others_asks_nobody(hub: HubServer, make_registry: Make):
    assert suggest_models(make_registry(), Catalogue()) == [
        ("first", "first"),
        ("second", "second"),
    ]
    assert hub.requests == []


def test_without_the_hub_the_cache_is_suggested(
    hub: HubServer, model_folder: Path, make_registry: Make
):
    hub.store.put(REPO, read_folder(model_folder))
    pull(HubReference(REPO))
    hub.faults.add(Fault(".", times=None, status=503))
    names = [name for _, name in suggest_models(make_registry(allow_hub=True), Catalogue())]
    assert names == ["first", "second", REPO]

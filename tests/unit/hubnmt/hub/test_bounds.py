import os
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

from hubnmt.errors import HubError
from hubnmt.hub import HubReference, bounds, list_cached, pull
from hubnmt.hub.bounds import download_size, forget_oldest
from hubnmt.hub.contents import WEIGHTS
from hubnmt.hub.pull import ask
from tests.hub import REPO, read_folder
from tests.hub_server import HubServer

NAMES = (REPO, "user/second", "user/third")


@pytest.fixture
def stored(hub: HubServer, model_folder: Path) -> dict[str, bytes]:
    files = read_folder(model_folder)
    for name in NAMES:
        hub.store.put(name, files)
    return files


def test_the_size_is_known_before_anything_is_fetched(hub: HubServer, stored: dict[str, bytes]):
    hub.store.put(REPO, {"picture.png": bytes(10**6)})  # not a model's file
    assert download_size(HubReference(REPO)) == sum(map(len, stored.values()))
    assert hub.asked("GET /objects/") == []
    with pytest.raises(HubError):
        download_size(HubReference("user/nowhere"))


def test_a_size_that_is_not_stated_is_not_taken_for_none(
    hub: HubServer, stored: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
):
    def ask_less(*asked: Any) -> Any:
        info = ask(*asked)
        for sibling in info.siblings:
            if sibling.rfilename == WEIGHTS:
                sibling.size = None
        return info

    monkeypatch.setattr(bounds, "ask", ask_less)
    with pytest.raises(HubError, match=f"the size of {WEIGHTS}"):
        download_size(HubReference(REPO))


def test_those_used_longest_ago_are_forgotten(hub: HubServer, stored: dict[str, bytes]):
    assert forget_oldest(0) == ()
    size = sum(map(len, stored.values()))
    for age, name in enumerate(reversed(NAMES)):
        pull(HubReference(name))
        cache = Path(huggingface_hub.constants.HF_HUB_CACHE)
        for path in cache.glob(f"models--{name.replace('/', '--')}/blobs/*"):
            os.utime(path, (1_000_000 - age, 1_000_000 - age))
    assert forget_oldest(3 * size) == ()
    assert forget_oldest(2 * size) == (REPO,)
    assert forget_oldest(0) == ("user/second",)  # the last one stays
    assert [each.name for each in list_cached()] == ["user/third"]


def test_other_libraries_are_left_alone(hub: HubServer, stored: dict[str, bytes]):
    pull(HubReference(REPO))
    pull(HubReference("user/second"))
    cache = Path(huggingface_hub.constants.HF_HUB_CACHE)
    foreign = cache / "models--other--large" / "snapshots" / ("0" * 40) / "weights.bin"
    foreign.parent.mkdir(parents=True)
    foreign.write_bytes(bytes(10**6))
    assert len(forget_oldest(0)) == 1
    assert foreign.exists()

import os
from pathlib import Path

import huggingface_hub
import pytest

from hubnmt.hub.bounds import forget_oldest, note_use
from hubnmt.hub.contents import WEIGHTS
from hubnmt.hub.listing import list_cached
from hubnmt.hub.pull import pull
from hubnmt.hub.reference import HubReference
from tests.hub import REPO, read_folder
from tests.hub_server import HubServer

NAMES = (REPO, "user/second", "user/third")


@pytest.fixture
def stored(hub: HubServer, model_folder: Path) -> dict[str, bytes]:
    files = read_folder(model_folder)
    for name in NAMES:
        hub.store.put(name, files)
    return files


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


def test_a_use_is_noted_and_nothing_else_of_the_file_changes(
    hub: HubServer, stored: dict[str, bytes]
):
    """On a file system that notes no reading, the first would be forgotten first."""
    folders = [pull(HubReference(name)).folder for name in NAMES]
    for age, folder in enumerate(folders):
        os.utime(folder / WEIGHTS, (1_000_000 + age, 1_000_000))
    note_use(folders[0])
    assert (folders[0] / WEIGHTS).stat().st_mtime == 1_000_000
    forget_oldest(0)
    assert [each.name for each in list_cached()] == [REPO]


def test_a_use_that_cannot_be_noted_stops_nobody(tmp_path: Path):
    note_use(tmp_path / "nowhere")


def test_other_libraries_are_left_alone(hub: HubServer, stored: dict[str, bytes]):
    pull(HubReference(REPO))
    pull(HubReference("user/second"))
    cache = Path(huggingface_hub.constants.HF_HUB_CACHE)
    foreign = cache / "models--other--large" / "snapshots" / ("0" * 40) / "weights.bin"
    foreign.parent.mkdir(parents=True)
    foreign.write_bytes(bytes(10**6))
    assert len(forget_oldest(0)) == 1
    assert foreign.exists()

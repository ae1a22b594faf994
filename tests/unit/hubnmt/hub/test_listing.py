"""What there is, from metadata alone."""

import os
from pathlib import Path

import huggingface_hub
import pytest

from hubnmt.checkpoint.metadata import Score
from hubnmt.config import ModelConfig
from hubnmt.errors import HubError
from hubnmt.hub.client import HubReference
from hubnmt.hub.listing import evict_lru, list_cached, list_hub
from hubnmt.hub.pull import pull
from tests.hub import REPO, read_folder
from tests.hub_server import HubServer

CARD = b"---\nlanguage: [fr, en]\nlibrary_name: hubnmt\ntags: [hubnmt]\n---\n"


@pytest.fixture
def full_hub(hub: HubServer, model_folder: Path) -> HubServer:
    """A Hub with three models of ours and one of another library."""
    hub.store.put(REPO, read_folder(model_folder))
    hub.store.put("user/fr-en", {"README.md": CARD})
    hub.store.put("other/fr-en-big", {"README.md": CARD})
    hub.store.put("other/opus", {"README.md": b"---\ntags: [translation]\n---\n"})
    return hub


def names(models: object) -> list[str]:
    return [model.name for model in models]  # type: ignore[attr-defined]  # any list of them


def test_the_hubs_models_are_those_tagged(full_hub: HubServer, tiny_config: ModelConfig):
    assert names(list_hub()) == ["other/fr-en-big", REPO, "user/fr-en"]
    assert names(list_hub(author="other")) == ["other/fr-en-big"]
    assert names(list_hub(search="tiny")) == [REPO]
    assert names(list_hub(author="other", search="tiny")) == []
    (model,) = list_hub(search="tiny")
    assert (model.src_lang, model.tgt_lang) == ("de", "en")
    assert model.scores == (
        Score("BLEU", 41.25, "Multi30k test_2016_flickr"),
        Score("chrF", 60.5, "Multi30k test_2016_flickr"),
    )
    assert model.n_parameters == tiny_config.n_parameters
    assert model.size_bytes == 4 * tiny_config.n_parameters
    assert model.commit == full_hub.repo(REPO).refs["main"]
    assert full_hub.asked("resolve|objects") == []  # from metadata alone


@pytest.mark.parametrize(
    "head",
    [
        "self: 1",
        "ignore_metadata_errors: x",
        "eval_results: 5",
        "model-index: [{name: x, results: [{metrics: [{type: [bleu], value: .nan}]}]}]",
        'language: [1, [2], {a: b}, "\\e[31mred"]',
        "library_name: [1]",
    ],
)
def test_a_strangers_card_does_not_spoil_the_list(head: str, full_hub: HubServer):
    """Some of these heads fell the client's own reading."""
    card = f"---\ntags: [hubnmt]\n{head}\n---\n"
    full_hub.store.put("evil/card", {"README.md": card.encode()})
    found = {model.name: model for model in list_hub()}
    assert {"other/fr-en-big", REPO, "user/fr-en"} <= set(found)
    full_hub.store.put("evil/card", {"config.json": b"{}", "model.safetensors": b"x"})
    with pytest.raises(HubError, match=r"check the metadata|has no tokenizer\.json"):
        pull(HubReference("evil/card"))


def test_the_cache_lists_whole_models_of_ours(full_hub: HubServer, model_folder: Path):
    assert list_cached() == []
    pulled = pull(HubReference(REPO))
    huggingface_hub.HfApi(endpoint=full_hub.url).hf_hub_download("other/opus", "README.md")
    (model,) = list_cached()
    assert (model.name, model.commit, model.source) == (REPO, pulled.name, "cached")
    assert model.size_bytes == sum(map(len, read_folder(model_folder).values()))
    (pulled / "tokenizer.json").unlink()
    assert list_cached() == []


NAMES = (REPO, "user/second", "user/third")


def test_those_used_longest_ago_are_forgotten_and_other_libraries_left_alone(
    hub: HubServer, model_folder: Path
):
    cache = Path(huggingface_hub.constants.HF_HUB_CACHE)
    foreign = cache / "models--other--large" / "snapshots" / ("0" * 40) / "weights.bin"
    foreign.parent.mkdir(parents=True)
    foreign.write_bytes(bytes(10**6))
    assert evict_lru(0) == ()
    files = read_folder(model_folder)
    size = sum(map(len, files.values()))
    for age, name in enumerate(reversed(NAMES)):
        hub.store.put(name, files)
        pull(HubReference(name))
        for path in cache.glob(f"models--{name.replace('/', '--')}/blobs/*"):
            os.utime(path, (1_000_000 - age, 1_000_000 - age))
    assert evict_lru(3 * size) == ()
    assert evict_lru(2 * size) == (REPO,)
    assert evict_lru(0) == ("user/second",)  # the last one stays
    assert [each.name for each in list_cached()] == ["user/third"]
    assert foreign.exists()

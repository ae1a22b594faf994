import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hubnmt.config import DecodingConfig
from hubnmt.errors import ModelNotFoundError
from hubnmt.hub.client import HubReference
from hubnmt.hub.pull import pull
from hubnmt.translator import Translator
from hubnmt.ui.services.registry import (
    ModelFacts,
    ModelRegistry,
    language_lists,
    suggest_models,
)
from tests.hub import REPO, read_folder
from tests.hub_server import HubServer

Make = Callable[..., ModelRegistry]


def test_the_least_recently_used_model_leaves(tmp_path: Path):
    registry = ModelRegistry(lambda _: object(), dict.fromkeys("abc", tmp_path))  # type: ignore[arg-type]
    first, second = map(registry.get, "ab")
    assert registry.get("a") is first
    registry.get("c")
    assert registry.get("a") is first
    assert registry.get("b") is not second


def test_many_visitors_at_once_load_a_model_once(tmp_path: Path):
    loads = []
    everyone = threading.Barrier(8)
    registry = ModelRegistry(
        lambda name: loads.append(name) or object(),  # type: ignore[arg-type, func-returns-value]
        {"one": tmp_path},
    )

    def visit() -> None:
        everyone.wait()
        registry.get("one")

    visitors = [threading.Thread(target=visit) for _ in range(8)]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join()
    assert loads == ["one"]


@pytest.mark.parametrize(
    ("allow_local", "allow_hub", "opens"),
    [
        (False, False, []),
        (True, False, ["local"]),
        (False, True, ["hub"]),
        (True, True, ["local", "hub"]),
    ],
)
def test_what_a_visitor_may_open(
    tmp_path: Path, allow_local: bool, allow_hub: bool, opens: list[str]
):
    names: Any = str  # in place of loading
    bundled = dict.fromkeys(("first", "second"), tmp_path)
    registry = ModelRegistry(names, bundled, allow_local=allow_local, allow_hub=allow_hub)
    for kind, reference in {"local": str(tmp_path), "hub": "user/name@v1.0"}.items():
        if kind in opens:
            assert registry.get(reference) == reference
        else:
            with pytest.raises(ModelNotFoundError, match="first, second"):
                registry.get(reference)


@pytest.mark.parametrize(
    "reference",
    ["..", "../secret", "/etc", "~/x", "a/b/c", "a/..", "here/there", "a\\b", "a/b@../x y", "\0/a"],
)
def test_no_path_passes_for_a_hub_reference(
    make_registry: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: str
):
    (tmp_path / "here" / "there").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelNotFoundError, match="is not available on this page"):
        make_registry(allow_hub=True).get(reference)


def test_refusal_does_not_tell_what_exists(make_registry: Make, tmp_path: Path):
    registry = make_registry()
    messages = []
    for reference in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(ModelNotFoundError) as caught:
            registry.get(str(reference))
        messages.append(str(caught.value).replace(repr(str(reference)), "..."))
    assert messages[0] == messages[1]


def test_own_models_do_not_wait_for_the_hub(tmp_path: Path):
    begun, leave = threading.Event(), threading.Event()

    def load(name: str) -> str:
        if name == "user/slow":
            begun.set()
            leave.wait(20)
        return name

    registry = ModelRegistry(load, {"own": tmp_path}, allow_hub=True)  # type: ignore[arg-type]
    visitor = threading.Thread(target=registry.get, args=("user/slow",))
    visitor.start()
    assert begun.wait(10)
    assert registry.get("own") == "own"
    leave.set()
    visitor.join()


def test_the_hubs_models_are_suggested_with_what_is_known(
    hub: HubServer, model_folder: Path, make_registry: Make
):
    hub.store.put(REPO, read_folder(model_folder))
    hub.store.put("user/bare", {"README.md": b"---\ntags: [hubnmt]\n---\n"})
    suggested = suggest_models(make_registry(allow_hub=True))
    assert suggested[:2] == [("first", "first"), ("second", "second")]
    assert suggested[2:] == [
        ("user/bare", "user/bare"),
        (f"{REPO} (de to en, BLEU 41.2, 0 MB)", REPO),
    ]


def test_own_models_and_a_cached_one_that_translates_back_are_listed(
    hub: HubServer, model_folder: Path, tmp_path: Path
):
    hub.store.put(REPO, read_folder(model_folder))
    pull(HubReference(REPO))
    opened = ModelFacts(
        name="opened", src_lang="en", tgt_lang="de", n_parameters=0, decoding=DecodingConfig()
    )

    def names(folders: dict[str, Path]) -> list[str]:
        registry = ModelRegistry(Translator.from_pretrained, folders, allow_hub=True)
        return [model["name"] for model in language_lists(registry, opened)["models"]]

    unreadable = {"unreadable": tmp_path}
    assert names({"readable": model_folder} | unreadable) == ["readable", "opened"]
    assert names(unreadable) == ["opened", REPO]

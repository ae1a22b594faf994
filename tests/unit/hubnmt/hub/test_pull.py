"""A model comes whole, or not at all in one line; and the next try works."""

import contextlib
import json
import logging
import os
import signal
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

from hubnmt.checkpoint.files import MODEL_FILES
from hubnmt.errors import HubError, InputError, ModelFolderError
from hubnmt.hub.client import HubReference
from hubnmt.hub.pull import find_cached, pull, pull_to
from tests.hub import READER, REPO, TOKEN, read_folder
from tests.hub_server import Fault, HubServer

REFERENCE = HubReference(REPO)
OBJECTS = r"GET /objects/"
"""Where large files are fetched."""


@pytest.fixture
def stored(hub: HubServer, model_folder: Path) -> dict[str, bytes]:
    """A good model on the Hub; its files."""
    files = read_folder(model_folder)
    hub.store.put(REPO, files)
    return files


HUGE = {"d_model": 2**14, "n_heads": 1, "d_ff": 2**17, "n_encoder_layers": 256}


def test_only_the_files_of_a_model_folder_are_fetched_and_only_once(
    hub: HubServer, stored: dict[str, bytes]
):
    hub.store.put(REPO, {"run/state.pt": b"pickle", "app.py": b"evil", "a/config.json": b"{}"})
    pulled = pull(REFERENCE)
    assert pulled.name == hub.repo(REPO).refs["main"]
    assert read_folder(pulled) == stored
    assert {request.path.split("/")[-1] for request in hub.asked("resolve/")} <= set(MODEL_FILES)
    (large,) = hub.asked(OBJECTS)  # on a host that gets no token
    assert "authorization" not in {name.lower() for name in large.headers}
    assert TOKEN in str(hub.asked("resolve/.*safetensors")[0].headers)
    hub.requests.clear()
    assert pull(REFERENCE) == pulled
    assert hub.asked("resolve|objects") == []
    hub.requests.clear()
    assert pull(HubReference(REPO, pulled.name)) == pulled
    assert hub.requests == []


def test_a_branch_a_tag_and_a_commit_are_found(hub: HubServer, stored: dict[str, bytes]):
    old, repo = hub.repo(REPO).refs["main"], hub.repo(REPO)
    repo.refs["v1"] = repo.refs["feature/a"] = old
    hub.store.put(REPO, {"decoding.json": b'{"beam_size": 3}'})
    for revision in ("v1", "feature/a", old):
        for is_offline in (False, True):
            assert pull(HubReference(REPO, revision), local_files_only=is_offline).name == old
    assert pull(REFERENCE).name == hub.repo(REPO).refs["main"] != old


def test_offline_or_with_a_hub_in_trouble_the_copy_is_in_use(
    hub: HubServer,
    stored: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    pulled = pull(REFERENCE)
    hub.faults.append(Fault(".", times=None, status=503))
    with caplog.at_level(logging.WARNING, "hubnmt"):
        assert pull(REFERENCE) == pulled
    assert "using the cached commit" in caplog.text
    hub.requests.clear()
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert pull(REFERENCE) == pulled
    (pulled / "decoding.json").unlink()
    with pytest.raises(HubError, match=r"incomplete.*pull it once online"):
        pull(REFERENCE)
    assert hub.requests == []


def test_a_closed_model_is_refused_with_the_way_out_and_not_taken_from_the_cache(
    hub: HubServer, stored: dict[str, bytes]
):
    hub.repo(REPO).gated = True
    with pytest.raises(HubError, match=f"gated: ask for access at {hub.url}/{REPO}"):
        pull(REFERENCE, token=READER)
    assert pull(REFERENCE, token=TOKEN).name == hub.repo(REPO).refs["main"]
    hub.repo(REPO).private = True
    with pytest.raises(HubError, match="private"):
        pull(REFERENCE, token=READER)


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"config.json": b'{"library": "other"}'}, "another library"),
        ({"model.safetensors": None, "pytorch_model.bin": b"x"}, "has no model.safetensors.*pickl"),
        ({"config.json": b"/etc/passwd"}, r"config.json: not valid JSON"),  # a link, as git has it
        ({"config.json": HUGE}, r"\d(,\d{3}){3,} parameters are more than"),
        ({"model.safetensors": b"tiny"}, "has 4 bytes, but a valid one"),
        ({"model.safetensors": 20 * 2**20}, "has 20,971,520 bytes, but a valid one"),
        ({"tokenizer.json": 65 * 2**20}, "tokenizer.json has 68,157,440 bytes, but a valid one"),
    ],
    ids=str,
)
def test_what_cannot_be_used_is_refused_before_the_weights_come(
    files: dict[str, Any], sentence: str, hub: HubServer, stored: dict[str, bytes]
):
    for name, content in files.items():
        if isinstance(content, dict):
            content = json.dumps(json.loads(stored[name]) | content).encode()
        stored[name] = bytes(content or b"")
    hub.store.put("user/bad", {name: data for name, data in stored.items() if data})
    with pytest.raises((HubError, ModelFolderError), match=sentence):
        pull(HubReference("user/bad"))
    assert hub.asked("safetensors") == []


def test_a_name_that_climbs_out_is_not_followed(
    hub: HubServer, stored: dict[str, bytes], tmp_path: Path
):
    names = ("../../evil.txt", "..\\evil.txt", "/tmp/evil.txt")
    hub.store.put(REPO, dict.fromkeys(names, b"x"))
    pull(REFERENCE)
    assert list(tmp_path.rglob("evil*")) == []


@pytest.mark.parametrize("key", ["sha", "siblings", "library_name", "cardData", "size"])
@pytest.mark.parametrize("value", [-1, 10**400, "../../../precious", None, {}, [3]])
def test_a_model_described_with_wrong_types_is_one_line(
    key: str, value: Any, hub: HubServer, stored: dict[str, bytes], tmp_path: Path
):
    def spoil(answer: dict[str, Any]) -> None:
        for table in answer["siblings"] if key == "size" else [answer]:
            table[key] = value

    hub.edit = spoil
    with contextlib.suppress(HubError):
        pull(REFERENCE)
    assert {path.name for path in tmp_path.iterdir()} <= {"hub-cache", "de-en-tiny"}


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ({"status": 401}, "does not accept this token: create one at"),
        ({"status": 429}, "too many requests.*try again after 3600 s"),
        ({"status": 503}, r"server error \(503\): try again"),
        ({"pause_s": 1.0}, r"cannot reach .* \(ReadTimeout\)"),
    ],
)
def test_lasting_trouble_is_one_line_and_the_next_try_works(
    fault: dict[str, Any],
    sentence: str,
    hub: HubServer,
    stored: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("hubnmt.hub.client.TIMEOUT_S", 0.5)
    hub.faults.append(Fault("GET /api", times=None, headers={"Retry-After": "3600"}, **fault))
    with pytest.raises(HubError, match=sentence) as error:
        pull(REFERENCE)
    assert "\n" not in str(error.value)
    assert TOKEN not in str(error.value)
    assert find_cached(REFERENCE) is None
    hub.faults.clear()
    assert read_folder(pull(REFERENCE)) == stored


def test_a_broken_download_goes_on_where_it_stopped(hub: HubServer, stored: dict[str, bytes]):
    for _ in range(3):
        hub.faults.append(Fault(OBJECTS, times=1, cut_after=5000))
    assert read_folder(pull(REFERENCE)) == stored
    assert len(hub.asked(OBJECTS)) == 4


def test_ctrl_c_leaves_the_old_model_in_use(hub: HubServer, stored: dict[str, bytes]):
    old = pull(REFERENCE)
    changed = stored | {"model.safetensors": stored["model.safetensors"][:-1] + b"\1"}
    hub.store.put(REPO, changed)
    stop = Fault(OBJECTS, pause_s=0.2, before=lambda: os.kill(os.getpid(), signal.SIGINT))
    hub.faults.append(stop)
    with pytest.raises(KeyboardInterrupt):
        pull(REFERENCE)
    assert pull(REFERENCE, local_files_only=True) == old
    assert read_folder(pull(REFERENCE)) == changed


def test_what_is_too_large_is_refused_before_anything_is_fetched(
    hub: HubServer, stored: dict[str, bytes]
):
    size = sum(map(len, stored.values()))
    hub.store.put(REPO, {"picture.png": bytes(10**6)})  # not a model's file
    with pytest.raises(HubError, match=r"over the limit of 0 MB; .*hubnmt pull user/"):
        pull(REFERENCE, max_bytes=size - 1)
    assert hub.asked(r"GET .*(objects|resolve)") == []
    pull(REFERENCE, max_bytes=size)
    pull(REFERENCE, max_bytes=0)  # all of it is here already


def test_a_folder_of_ones_own_gets_real_files_and_only_those_of_the_model(
    hub: HubServer, stored: dict[str, bytes], tmp_path: Path
):
    """Defaults of an older model would change what this one says; the user's own files stay."""
    mine = tmp_path / "mine"
    assert pull_to(REFERENCE, mine) == pull(REFERENCE)
    assert read_folder(mine) == stored
    assert not any(path.is_symlink() for path in mine.iterdir())
    (mine / "notes.txt").write_text("kept")
    bare = {name: data for name, data in stored.items() if name.startswith(("c", "m", "t"))}
    hub.store.put("user/bare", bare)
    pull_to(HubReference("user/bare"), mine)
    assert read_folder(mine) == bare | {"notes.txt": b"kept"}
    hub.store.put(REPO, {"tokenizer.json": b"{}"})
    with pytest.raises(ModelFolderError, match="tokenizer"):  # loaded before it is given
        pull_to(REFERENCE, mine)
    assert read_folder(mine) == bare | {"notes.txt": b"kept"}


def test_a_folder_of_another_library_is_left_alone(hub: HubServer, tmp_path: Path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(InputError, match="no hubnmt model; name an empty or a new folder"):
        pull_to(REFERENCE, tmp_path)
    assert hub.requests == []

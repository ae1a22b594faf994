"""A model comes whole and as the Hub states it, or not at all; and the next try works."""

import json
import logging
import os
import shutil
import signal
from functools import partial
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

from hubnmt.config import ModelConfig
from hubnmt.errors import HubError, HubUnreachableError, InputError, ModelFolderError
from hubnmt.hub.files import ALLOWED, check_sizes, largest_size
from hubnmt.hub.pull import find_cached, pull, pull_to
from hubnmt.hub.reference import HubReference
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


def head(hub: HubServer, branch: str = "main") -> str:
    return hub.repo(REPO).branches[branch]


def cache_is_empty_or_whole(stored: dict[str, bytes]) -> bool:
    """No half file is in use: every blob in the cache is one of the model's files."""
    cache = Path(huggingface_hub.constants.HF_HUB_CACHE)
    blobs = [path for path in cache.glob("models--*/blobs/*") if path.is_file()]
    return all(path.read_bytes() in stored.values() for path in blobs)


def test_only_the_files_of_a_model_folder_are_fetched(hub: HubServer, stored: dict[str, bytes]):
    others = {
        "run/state.pt": b"pickle",
        "app.py": b"evil",
        "logs.txt": b"x",
        "a/config.json": b"{}",
    }
    hub.store.put(REPO, others)
    pulled = pull(REFERENCE)
    assert pulled.commit == head(hub)
    assert read_folder(pulled.folder) == stored
    asked = {request.path.split("/")[-1] for request in hub.asked("resolve/")}
    assert asked <= set(ALLOWED)


def test_a_second_pull_downloads_nothing_and_of_a_commit_asks_nobody(
    hub: HubServer, stored: dict[str, bytes]
):
    first = pull(REFERENCE)
    hub.requests.clear()
    assert pull(REFERENCE) == first
    assert hub.asked("resolve|objects") == []
    hub.requests.clear()
    assert pull(HubReference(REPO, first.commit)) == first
    assert hub.requests == []


def test_a_branch_a_tag_and_a_commit_are_found(hub: HubServer, stored: dict[str, bytes]):
    old = head(hub)
    repo = hub.repo(REPO)
    repo.tags["v1"] = repo.branches["feature/a"] = old
    hub.store.put(REPO, {"decoding.json": b'{"beam_size": 3}'})
    for revision in ("v1", "feature/a", old):
        assert pull(HubReference(REPO, revision)).commit == old
    assert pull(REFERENCE).commit == head(hub) != old


# --- without a network ---------------------------------------------------------------------------


def test_offline_takes_the_cache(
    hub: HubServer, stored: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
):
    pulled = pull(REFERENCE)
    hub.requests.clear()
    assert pull(REFERENCE, local_files_only=True) == pulled
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert pull(REFERENCE) == pulled
    assert hub.requests == []


def test_offline_without_a_copy_says_what_to_do(hub: HubServer, stored: dict[str, bytes]):
    with pytest.raises(HubError, match=r"not in the cache.*pull it once online"):
        pull(REFERENCE, local_files_only=True)
    assert hub.requests == []


def test_a_hub_in_trouble_leaves_the_copy_in_use(
    hub: HubServer, stored: dict[str, bytes], caplog: pytest.LogCaptureFixture
):
    pulled = pull(REFERENCE)
    hub.faults.add(Fault(".", times=None, status=503))
    with caplog.at_level(logging.WARNING, "hubnmt"):
        assert pull(REFERENCE) == pulled
    assert "using the cached commit" in caplog.text


def test_a_refusal_is_not_answered_from_the_cache(hub: HubServer, stored: dict[str, bytes]):
    pull(REFERENCE)
    hub.repo(REPO).private = True
    with pytest.raises(HubError, match="private"):
        pull(REFERENCE, token=READER)


# --- private and gated ---------------------------------------------------------------------------


def test_a_gated_model_says_where_to_ask(hub: HubServer, stored: dict[str, bytes]):
    hub.repo(REPO).gated = True
    with pytest.raises(HubError, match=f"gated: ask for access at {hub.url}/{REPO}"):
        pull(REFERENCE, token=READER)
    assert pull(REFERENCE, token=TOKEN).commit == head(hub)


# --- what is not ours ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        (
            {"config.json": b'{"model_type": "marian"}', "pytorch_model.bin": b"x"},
            "of the library 'transformers': it has no model.safetensors.*pickled",
        ),
        ({"README.md": b"# hello"}, "not a hubnmt model: it has no config.json and no model"),
        (
            {
                "config.json": b"{}",
                "tokenizer.json": b"{}",
                "model-00001-of-00002.safetensors": b"",
                "model.safetensors.index.json": b"{}",
            },
            "weights are sharded, which hubnmt does not support",
        ),
    ],
)
def test_a_repository_of_another_kind_is_named(
    files: dict[str, bytes], sentence: str, hub: HubServer
):
    hub.store.put(REPO, files)
    with pytest.raises(HubError, match=sentence):
        pull(REFERENCE)
    assert hub.asked("resolve/") == []


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"config.json": b'{"library": "other"}'}, "another library"),
        ({"config.json": b"/etc/passwd"}, r"config.json: not valid JSON"),  # a link, as git has it
        (
            {
                "config.json": {
                    "d_model": 2**14,
                    "n_heads": 1,
                    "d_ff": 2**17,
                    "n_encoder_layers": 256,
                }
            },
            r"\d(,\d{3}){3,} parameters are more than",
        ),
        ({"model.safetensors": b"tiny"}, "has 4 bytes, but config.json describes"),
        ({"model.safetensors": 20 * 2**20}, "has 20,971,520 bytes, but config.json"),
        ({"tokenizer.json": 65 * 2**20}, "tokenizer.json has 65 MiB, at most 64"),
    ],
    ids=str,
)
def test_what_cannot_be_used_is_refused_before_the_weights_come(
    files: dict[str, Any], sentence: str, hub: HubServer, stored: dict[str, bytes]
):
    ((name, content),) = files.items()
    if isinstance(content, dict):
        content = json.dumps(json.loads(stored[name]) | content).encode()
    hub.store.put(REPO, {name: bytes(content)})
    with pytest.raises((HubError, ModelFolderError), match=sentence):
        pull(REFERENCE)
    assert hub.asked("safetensors") == []


def test_a_name_that_climbs_out_is_not_followed(
    hub: HubServer, stored: dict[str, bytes], tmp_path: Path
):
    hub.store.put(REPO, {"../../evil.txt": b"x", "..\\evil.txt": b"x", "/tmp/evil.txt": b"x"})
    pull(REFERENCE)
    assert list(tmp_path.rglob("evil*")) == []


# --- trouble on the way --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "path"), [(429, "GET /api/models"), (500, "GET .*config.json"), (503, OBJECTS)]
)
def test_a_hiccup_is_not_noticed(status: int, path: str, hub: HubServer, stored: dict[str, bytes]):
    hub.faults.add(Fault(path, times=1, status=status))
    assert read_folder(pull(REFERENCE).folder) == stored


@pytest.mark.parametrize(
    ("status", "path", "sentence"),
    [
        (401, "GET /api/models", "does not accept this token: create one at"),
        (403, "GET .*config.json", "forbids this"),
        (404, OBJECTS, "not found"),
        (429, "GET .*config.json", "too many requests.*wait"),
        (500, OBJECTS, r"server error \(500\): try again"),
        (503, "GET /api/models", r"server error \(503\): try again"),
    ],
)
def test_lasting_trouble_is_one_line_and_the_next_try_works(
    status: int, path: str, sentence: str, hub: HubServer, stored: dict[str, bytes]
):
    hub.faults.add(Fault(path, times=None, status=status))
    with pytest.raises(HubError, match=sentence) as error:
        pull(REFERENCE)
    assert "\n" not in str(error.value)
    assert TOKEN not in str(error.value)
    assert cache_is_empty_or_whole(stored)
    assert find_cached(REFERENCE) is None
    hub.faults.clear()
    assert read_folder(pull(REFERENCE).folder) == stored


def test_a_hub_that_asks_to_wait_long_is_obeyed_by_stopping(
    hub: HubServer, stored: dict[str, bytes]
):
    hub.faults.add(
        Fault("GET /api/models", times=None, status=429, headers={"Retry-After": "3600"})
    )
    with pytest.raises(HubUnreachableError, match="wait 3600 s"):
        pull(REFERENCE)
    assert len(hub.asked("GET /api/models")) == 1


def test_a_broken_download_goes_on_where_it_stopped(hub: HubServer, stored: dict[str, bytes]):
    for _ in range(6):
        hub.faults.add(Fault(OBJECTS, times=1, cut_after=5000))
    assert read_folder(pull(REFERENCE).folder) == stored
    first, *others = hub.asked(OBJECTS)
    assert "range" not in {name.lower() for name in first.headers}
    starts = [{k.lower(): v for k, v in each.headers.items()}["range"] for each in others]
    assert starts == [f"bytes={5000 * n}-" for n in range(1, 7)]


def test_the_storage_of_large_files_gets_no_token(hub: HubServer, stored: dict[str, bytes]):
    pull(REFERENCE)
    (asked,) = hub.asked(OBJECTS)
    assert "authorization" not in {name.lower() for name in asked.headers}
    assert TOKEN in str(hub.asked("resolve/.*safetensors")[0].headers)


@pytest.mark.parametrize("path", [OBJECTS, "GET .*config.json"])
def test_wrong_content_for_ever_is_never_kept(path: str, hub: HubServer, stored: dict[str, bytes]):
    hub.faults.add(Fault(path, times=None, spoil=True))
    with pytest.raises(
        HubError, match=r"does not match the hash that the Hub states.*proxy or mirror"
    ):
        pull(REFERENCE)
    assert cache_is_empty_or_whole(stored)
    hub.faults.clear()
    assert read_folder(pull(REFERENCE).folder) == stored


def test_a_file_changed_in_the_cache_is_seen(hub: HubServer, stored: dict[str, bytes]):
    weights = pull(REFERENCE).folder / "model.safetensors"
    spoiled = bytearray(weights.read_bytes())
    spoiled[-1] ^= 1
    weights.resolve().write_bytes(spoiled)
    with pytest.raises(HubError, match="incomplete"):
        pull(REFERENCE, local_files_only=True)
    assert read_folder(pull(REFERENCE).folder) == stored


def test_ctrl_c_leaves_the_old_model_in_use(hub: HubServer, stored: dict[str, bytes]):
    old = pull(REFERENCE)
    spoon = bytearray(stored["model.safetensors"])
    spoon[-1] ^= 1
    changed = stored | {"model.safetensors": bytes(spoon), "tokenizer.json": b"{}"}
    hub.store.put(REPO, changed)
    stop = Fault(OBJECTS, pause_s=0.2, before=lambda: os.kill(os.getpid(), signal.SIGINT))
    hub.faults.add(stop)
    with pytest.raises(KeyboardInterrupt):
        pull(REFERENCE)
    assert cache_is_empty_or_whole(stored | {f"new {k}": v for k, v in changed.items()})
    assert pull(REFERENCE, local_files_only=True) == old
    assert read_folder(pull(REFERENCE).folder) == changed


# --- a mirror that means harm --------------------------------------------------------------------


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file of the user's beside the cache."""
    path = tmp_path / "precious.txt"
    path.write_text("mine")
    return path


def files_of(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


def check_only_the_cache_changed(folder: Path, before: set[Path]) -> None:
    cache = Path(huggingface_hub.constants.HF_HUB_CACHE)
    ours = cache / f"models--{REPO.replace('/', '--')}"
    assert [path for path in files_of(folder) - before if not path.is_relative_to(ours)] == []
    assert (folder / "precious.txt").read_text() == "mine"


WRONG = [-1, 10**400, "../../../precious.txt", "a" * 100_000, None, {}, [3]]
"""What may stand where the Hub has a hash, a size, a text or a table."""


FILE_KEYS = ("blobId", "size", "rfilename", "lfs", "sha256")
REPO_KEYS = ("sha", "siblings", "library_name", "id", "cardData", "gated", "safetensors")


@pytest.mark.parametrize("key", [*FILE_KEYS, *REPO_KEYS])
def test_a_model_described_with_wrong_types_is_one_line(
    key: str, hub: HubServer, stored: dict[str, bytes], precious: Path
):
    def spoil(value: object, answer: dict[str, Any]) -> None:
        if key in REPO_KEYS:
            answer[key] = value
            return
        name = "model.safetensors" if key in ("lfs", "sha256") else "config.json"
        (row,) = (row for row in answer["siblings"] if row["rfilename"] == name)
        table = {"sha256": value, "size": 1, "pointerSize": 1}
        row |= {"lfs": table} if key == "sha256" else {key: value}

    for value in WRONG:
        hub.edit = partial(spoil, value)
        check_whole_or_one_line(stored, precious.parent)


def check_whole_or_one_line(stored: dict[str, bytes], folder: Path) -> None:
    before = files_of(folder)
    said = ""
    try:
        assert read_folder(pull(REFERENCE).folder) == stored
    except HubError as error:
        said = str(error)
    assert "\n" not in said
    assert len(said) < 500
    check_only_the_cache_changed(folder, before)
    shutil.rmtree(huggingface_hub.constants.HF_HUB_CACHE, ignore_errors=True)


def test_a_branch_that_moves_between_two_files_gives_one_commit(
    hub: HubServer, stored: dict[str, bytes]
):
    old, other = head(hub), {"decoding.json": b'{"beam_size": 3}', "README.md": b"# other"}
    hub.faults.add(Fault("GET .*decoding.json", before=lambda: hub.store.put(REPO, other)))
    pulled = pull(REFERENCE)
    assert (pulled.commit, read_folder(pulled.folder)) == (old, stored)
    hub.faults.add(Fault("GET .*README.md", before=lambda: hub.store.put(REPO, stored)))
    assert read_folder(pull(REFERENCE).folder) == stored | other


# --- within a limit ------------------------------------------------------------------------------


def test_what_is_too_large_is_refused_before_anything_is_fetched(
    hub: HubServer, stored: dict[str, bytes]
):
    size = sum(map(len, stored.values()))
    hub.store.put(REPO, {"picture.png": bytes(10**6)})  # not a model's file
    with pytest.raises(HubError, match=r"over the limit of 0 MB; .*hubnmt pull user/"):
        pull(REFERENCE, max_bytes=size - 1)
    assert hub.asked(OBJECTS) == []
    assert not Path(huggingface_hub.constants.HF_HUB_CACHE).exists()
    pull(REFERENCE, max_bytes=size)
    pull(REFERENCE, max_bytes=0)  # all of it is here already


# --- into a folder -------------------------------------------------------------------------------


def test_a_folder_of_ones_own_gets_real_files_and_only_those_of_the_model(
    hub: HubServer, stored: dict[str, bytes], tmp_path: Path
):
    """Defaults of an older model would change what this one says; the user's own files stay."""
    mine = tmp_path / "mine"
    assert pull_to(REFERENCE, mine).folder == mine
    assert read_folder(mine) == stored
    assert not any(path.is_symlink() for path in mine.iterdir())
    (mine / "notes.txt").write_text("kept")
    bare = {name: data for name, data in stored.items() if name.startswith(("c", "m", "t"))}
    hub.store.put("user/bare", bare)
    pull_to(HubReference("user/bare"), mine)
    assert read_folder(mine) == bare | {"notes.txt": b"kept"}


def test_a_folder_of_something_else_is_left_alone(
    hub: HubServer, stored: dict[str, bytes], tmp_path: Path
):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.txt").write_text("dear")
    with pytest.raises(InputError, match="other files"):
        pull_to(REFERENCE, tmp_path / "letters")
    with pytest.raises(InputError, match="is a file"):
        pull_to(REFERENCE, tmp_path / "letters" / "a.txt")
    assert hub.requests == []


def test_what_came_is_loaded_before_it_is_given(
    hub: HubServer, stored: dict[str, bytes], tmp_path: Path
):
    hub.store.put(REPO, {"tokenizer.json": b"{}"})
    with pytest.raises(ModelFolderError, match="tokenizer"):
        pull_to(REFERENCE, tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize(
    "headers",
    [
        *({"ETag": etag} for etag in ("../../../precious.txt", "/{}/precious.txt", "", "x" * 300)),
        *({"X-Repo-Commit": commit} for commit in ("../../x", "", "{}")),
    ],
)
def test_what_a_mirror_says_in_headers_is_no_path(
    headers: dict[str, str], hub: HubServer, stored: dict[str, bytes], precious: Path
):
    headers = {name: value.format(precious.parent) for name, value in headers.items()}
    linked = {f"X-Linked-{name}": value for name, value in headers.items()}
    every = "resolve/.*(config.json|model.safetensors)"
    hub.faults.add(Fault(every, times=None, replaced=headers | linked))
    before = files_of(precious.parent)
    assert read_folder(pull(REFERENCE).folder) == stored
    check_only_the_cache_changed(precious.parent, before)


def test_a_file_that_never_ends_is_not_kept(hub: HubServer, stored: dict[str, bytes]):
    """The disk fills before the hash is known."""
    hub.faults.add(Fault("GET .*tokenizer.json", times=None, endless=True))
    with pytest.raises(HubError, match="larger than the Hub states"):
        pull(REFERENCE)
    assert cache_is_empty_or_whole(stored)


def test_a_size_that_is_not_stated_is_not_taken_for_none(hub: HubServer, stored: dict[str, bytes]):
    def hide(answer: dict[str, Any]) -> None:
        (weights,) = (r for r in answer["siblings"] if r["rfilename"] == "model.safetensors")
        del weights["size"], weights["lfs"]
        weights["blobId"] = hub.repo(REPO).resolve("main").files["model.safetensors"].sha256

    hub.edit = hide
    with pytest.raises(HubError, match=r"the size of model\.safetensors"):
        pull(REFERENCE, max_bytes=10**9)
    assert hub.asked(OBJECTS) == []
    assert read_folder(pull(REFERENCE).folder) == stored


def test_a_folder_of_another_library_is_left_alone(
    hub: HubServer, stored: dict[str, bytes], tmp_path: Path
):
    files = dict.fromkeys(stored, b"mine") | {"config.json": b'{"model_type": "bert"}'}
    (tmp_path / "bert").mkdir()
    for name, data in files.items():
        (tmp_path / "bert" / name).write_bytes(data)
    with pytest.raises(InputError, match="no hubnmt model; name an empty or a new folder"):
        pull_to(REFERENCE, tmp_path / "bert")
    assert read_folder(tmp_path / "bert") == files


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_src.json", "tokenizer_tgt.json"])
def test_a_tokenizer_may_be_as_large_as_its_vocabulary_asks(tiny_config: ModelConfig, name: str):
    most = largest_size(name, tiny_config)
    assert most < 2**18
    check_sizes({name: most}, tiny_config, target="user/name")
    with pytest.raises(HubError, match=f"{name} has .* describes a vocabulary"):
        check_sizes({name: most + 1}, tiny_config, target="user/name")

"""A folder goes out whole, checked, in one commit; or the Hub is as it was."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from hubnmt.checkpoint.folder import load_model, save_model
from hubnmt.errors import HubError, HubUnreachableError, ModelFolderError
from hubnmt.hub.client import HubReference
from hubnmt.hub.pull import pull
from hubnmt.hub.push import push
from tests.hub import READER, REPO, TOKEN, change_weights
from tests.hub_server import Fault, HubServer

FILES = {"README.md", "config.json", "decoding.json", "model.safetensors", "tokenizer.json"}
TITLE = "Push with hubnmt"
COMMIT = r"POST /api/models/.*/commit/"


def change(folder: Path) -> None:
    """Save another model of the same shape in the folder."""
    stored = load_model(folder)
    change_weights(stored.model)
    save_model(folder, stored)


def test_a_folder_goes_in_one_commit_and_again_only_with_what_changed(
    hub: HubServer, model_folder: Path
):
    (model_folder / "state.pt").write_bytes(b"run state")
    (model_folder / "metrics.jsonl").write_text(" " * (2**20 + 1))  # above the limit
    (model_folder / ".env").write_text(f"HF_TOKEN={TOKEN}")
    (model_folder / "data").mkdir()
    (model_folder / "data" / "config.json").write_text("{}")
    first = push(model_folder, REPO)
    repo = hub.repo(REPO)
    assert repo.history() == [TITLE, "initial commit"]
    assert (first.commit, first.url) == (repo.refs["main"], f"{hub.url}/{REPO}")
    assert first.is_changed
    assert set(repo.files()) == FILES
    assert not any(b"run state" in content for content in hub.store.objects.values())
    assert not repo.private
    hub.requests.clear()
    second = push(model_folder, REPO)
    assert (second.is_changed, second.commit) == (False, first.commit)
    assert hub.asked(f"^PUT|{COMMIT}") == []
    (model_folder / "decoding.json").write_text('{"beam_size": 7}')
    assert push(model_folder, REPO).is_changed
    assert hub.asked("^PUT") == []
    change(model_folder)
    assert push(model_folder, REPO).is_changed
    assert len(hub.asked("^PUT /objects/")) == 1


def test_a_tokenizer_that_is_gone_goes_from_the_hub_and_foreign_files_stay(
    hub: HubServer, model_folder: Path
):
    push(model_folder, REPO)
    hub.store.put(REPO, {"NOTICE": b"mine", "samples.txt": b"x"})
    tokenizer = (model_folder / "tokenizer.json").read_bytes()
    (model_folder / "tokenizer.json").unlink()
    for side in ("src", "tgt"):
        (model_folder / f"tokenizer_{side}.json").write_bytes(tokenizer)
    push(model_folder, REPO)
    assert "tokenizer.json" not in hub.repo(REPO).files()
    assert {"NOTICE", "samples.txt"} < set(hub.repo(REPO).files())
    assert len(hub.repo(REPO).history()) == 4


def test_a_reader_may_propose_but_not_push(hub: HubServer, model_folder: Path):
    push(model_folder, REPO)
    change(model_folder)
    with pytest.raises(HubError, match="is public: make it private"):
        push(model_folder, REPO, private=True)
    with pytest.raises(HubError, match="your token needs the permission"):
        push(model_folder, REPO, token=READER)
    main = hub.repo(REPO).refs["main"]
    pushed = push(model_folder, REPO, token=READER, create_pr=True, message="better")
    assert pushed.url == f"{hub.url}/{REPO}/discussions/1"
    assert hub.repo(REPO).history("refs/pr/1")[0] == "better"
    assert hub.repo(REPO).refs["main"] == main


@pytest.mark.parametrize(
    "files",
    [{"README.md": b"---\nlibrary_name: transformers\n---\n"}, {"model.safetensors": b"x"}],
)
def test_another_librarys_model_is_not_overwritten(
    files: dict[str, bytes], hub: HubServer, model_folder: Path
):
    hub.store.put(REPO, files)
    with pytest.raises(HubError, match="choose a new name"):
        push(model_folder, REPO)
    assert hub.repo(REPO).files() == files


def _add_to_card(text: str) -> Callable[[Path], object]:
    def write(folder: Path) -> None:
        card = (folder / "README.md").read_text().replace("\n---\n", f"\n{text}\n---\n", 1)
        (folder / "README.md").write_text(card)

    return write


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda folder: (folder / "model.safetensors").write_bytes(b"x"), "invalid safetensors"),
        (lambda folder: (folder / "samples.md").symlink_to("/etc/passwd"), "outside the folder"),
        (_add_to_card(f"# {TOKEN}"), "contains a Hub token"),
        (_add_to_card("model-index: [{name: x}]"), "model_index"),
    ],
)
def test_an_unsound_folder_sends_nothing(
    spoil: Callable[[Path], object], sentence: str, hub: HubServer, model_folder: Path
):
    spoil(model_folder)
    with pytest.raises(ModelFolderError, match=sentence):
        push(model_folder, REPO)
    assert hub.requests == []


def test_a_pulled_model_can_be_pushed_on(hub: HubServer, model_folder: Path):
    push(model_folder, REPO)
    cached = pull(HubReference(REPO))
    assert (cached / "config.json").is_symlink()
    push(cached, "user/copy")
    weights = "model.safetensors"
    assert hub.repo("user/copy").files()[weights] == hub.repo(REPO).files()[weights]
    assert len(hub.asked("^PUT")) == 1


@pytest.mark.parametrize(
    ("status", "step", "sentence"),
    [
        (401, "GET /api/models/user/de-en-tiny", "does not accept this token"),
        (403, "POST /api/repos/create", "forbids"),
        (503, COMMIT, r"server error \(503\)"),
        (503, "validate-yaml", "did not respond like a Hub"),
    ],
)
def test_lasting_trouble_is_one_line_and_the_next_try_works(
    status: int, step: str, sentence: str, hub: HubServer, model_folder: Path
):
    hub.faults.append(Fault(step, times=None, status=status))
    with pytest.raises(HubError, match=sentence) as error:
        push(model_folder, REPO)
    assert "\n" not in str(error.value)
    assert TOKEN not in str(error.value)
    assert ("model", REPO) not in hub.store.repos or hub.repo(REPO).files() == {}
    hub.faults.clear()
    push(model_folder, REPO)
    assert hub.repo(REPO).history() == [TITLE, "initial commit"]


def test_an_upload_that_breaks_is_sent_again(hub: HubServer, model_folder: Path):
    hub.faults.append(Fault("PUT /objects", times=2, cut_after=3000))
    push(model_folder, REPO)
    assert len(hub.asked("PUT /objects")) == 3
    assert set(hub.repo(REPO).files()) == FILES


def test_a_commit_whose_answer_is_lost_has_happened(hub: HubServer, model_folder: Path):
    hub.faults.append(Fault(COMMIT, lose_answer=True))
    with pytest.raises(HubUnreachableError, match="then try again"):
        push(model_folder, REPO)
    assert not push(model_folder, REPO).is_changed
    assert hub.repo(REPO).history() == [TITLE, "initial commit"]
    assert set(hub.repo(REPO).files()) == FILES


def test_two_pushes_at_once_do_not_overwrite_each_other(hub: HubServer, model_folder: Path):
    push(model_folder, REPO)
    change(model_folder)
    theirs = {"decoding.json": b'{"beam_size": 9}'}
    hub.faults.append(Fault(COMMIT, before=lambda: hub.store.put(REPO, theirs) and None))
    with pytest.raises(HubError, match=r"another push; nothing was overwritten"):
        push(model_folder, REPO)
    assert hub.repo(REPO).history() == ["put", TITLE, "initial commit"]
    assert hub.repo(REPO).files()["decoding.json"] == theirs["decoding.json"]
    push(model_folder, REPO)
    assert hub.repo(REPO).history()[0] == TITLE


def test_ctrl_c_during_the_commit_leaves_all_of_it_or_nothing(hub: HubServer, model_folder: Path):
    hub.faults.append(
        Fault(COMMIT, before=lambda: os.kill(os.getpid(), signal.SIGINT), pause_s=0.2)
    )
    with pytest.raises(KeyboardInterrupt):
        push(model_folder, REPO)
    assert set(hub.repo(REPO).files()) in (set(), FILES)
    push(model_folder, REPO)
    assert hub.repo(REPO).history() == [TITLE, "initial commit"]

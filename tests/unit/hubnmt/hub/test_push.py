"""A folder goes out whole, checked, in one commit; or the Hub is as it was."""

import dataclasses
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml

from hubnmt import Translator
from hubnmt.checkpoint.folder import load_model, save_model
from hubnmt.checkpoint.metadata import read_metadata
from hubnmt.errors import HubError, HubUnreachableError, ModelFolderError
from hubnmt.hub.client import connect, read_repo
from hubnmt.hub.errors import HTTP_ERROR
from hubnmt.hub.pull import pull
from hubnmt.hub.push import CommitRequest, Content, collect, commit, differences, prepare_repo, push
from hubnmt.hub.reference import HubReference
from tests.hub import READER, REPO, TOKEN, change_weights, read_folder
from tests.hub_server import Fault, HubServer

FILES = {"README.md", "config.json", "decoding.json", "model.safetensors", "tokenizer.json"}
TITLE = "Push with hubnmt"
COMMIT = r"POST /api/models/.*/commit/"


def change(folder: Path) -> None:
    """Save another model of the same shape in the folder."""
    stored = load_model(folder)
    change_weights(stored.model)
    save_model(folder, stored)


def is_untouched(hub: HubServer) -> bool:
    """Tell whether the Hub holds no file of a push."""
    return ("model", REPO) not in hub.store.repos or hub.repo(REPO).files() == {}


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_a_new_repository_gets_one_commit(hub: HubServer, model_folder: Path):
    pushed = push(model_folder, REPO)
    repo = hub.repo(REPO)
    assert repo.history() == [TITLE, "initial commit"]
    assert pushed.commit == repo.branches["main"]
    assert pushed.url == f"{hub.url}/{REPO}"
    assert set(pushed.changed) == FILES == set(repo.files())
    assert not repo.private


def test_what_was_pushed_is_what_is_pulled(hub: HubServer, model_folder: Path):
    push(model_folder, REPO)
    ours, theirs = read_folder(model_folder), read_folder(pull(HubReference(REPO)).folder)
    card = theirs.pop("README.md").decode()
    assert ours.pop("README.md").decode() == card.replace(REPO, model_folder.name)
    assert theirs == ours


def test_the_card_on_the_hub_names_the_model_as_the_hub_does(hub: HubServer, model_folder: Path):
    push(model_folder, REPO)
    card = hub.repo(REPO).files()["README.md"].decode()
    assert f'Translator.from_pretrained("{REPO}")' in card
    head = yaml.safe_load(card.split("---\n")[1])
    assert head["library_name"] == "hubnmt"
    assert head["language"] == ["de", "en"]
    (result,) = head["model-index"][0]["results"]
    assert [(m["type"], m["value"]) for m in result["metrics"]] == [("bleu", 41.25), ("chrf", 60.5)]
    assert "tok:13a|version:2" in result["metrics"][0]["name"]


def test_a_folder_without_a_card_gets_what_is_known(hub: HubServer, model_folder: Path):
    (model_folder / "README.md").write_text("")
    push(model_folder, REPO)
    head = read_metadata(hub.repo(REPO).files()["README.md"].decode())
    assert head["language"] == ["de", "en"]
    assert "license" not in head
    assert "model-index" not in head


def test_nothing_else_in_the_folder_leaves(hub: HubServer, model_folder: Path):
    (model_folder / "state.pt").write_bytes(b"run state")
    (model_folder / "metrics.jsonl").write_text("{}")
    (model_folder / ".env").write_text(f"HF_TOKEN={TOKEN}")
    (model_folder / "data").mkdir()
    (model_folder / "data" / "config.json").write_text("{}")
    push(model_folder, REPO)
    assert set(hub.repo(REPO).files()) == FILES
    assert not any(b"run state" in content for content in hub.store.objects.values())


# --- again ---------------------------------------------------------------------------------------


def test_the_same_again_makes_no_commit(hub: HubServer, model_folder: Path):
    first = push(model_folder, REPO)
    hub.requests.clear()
    second = push(model_folder, REPO)
    assert second.changed == ()
    assert second.commit == first.commit
    assert hub.asked("^(POST|PUT)") == []


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_weights_go_out_as_they_came_in(dtype: torch.dtype, hub: HubServer, model_folder: Path):
    """Through memory, where they are float32: no byte of them has to travel."""
    save_model(model_folder, dataclasses.replace(load_model(model_folder), dtype=dtype))
    push(model_folder, REPO)
    translator = Translator.from_pretrained(REPO)
    assert translator.push_to_hub(REPO).changed == ()
    translator.save_pretrained(model_folder.parent / "saved")
    saved = (model_folder.parent / "saved" / "model.safetensors").read_bytes()
    assert saved == hub.repo(REPO).files()["model.safetensors"]


def test_only_what_changed_travels(hub: HubServer, model_folder: Path):
    push(model_folder, REPO)
    (model_folder / "decoding.json").write_text('{"beam_size": 7}')
    hub.requests.clear()
    assert push(model_folder, REPO).changed == ("decoding.json",)
    assert hub.asked("^PUT") == []
    change(model_folder)
    assert "model.safetensors" in push(model_folder, REPO).changed
    assert len(hub.asked("^PUT /objects/")) == 1


def test_a_tokenizer_that_is_gone_goes_from_the_hub(hub: HubServer, model_folder: Path):
    push(model_folder, REPO)
    tokenizer = (model_folder / "tokenizer.json").read_bytes()
    (model_folder / "tokenizer.json").unlink()
    for side in ("src", "tgt"):
        (model_folder / f"tokenizer_{side}.json").write_bytes(tokenizer)
    push(model_folder, REPO)
    assert "tokenizer.json" not in hub.repo(REPO).files()
    assert len(hub.repo(REPO).history()) == 3


def test_other_files_of_the_repository_stay(hub: HubServer, model_folder: Path):
    push(model_folder, REPO)
    hub.store.put(REPO, {"NOTICE": b"mine", "samples.txt": b"x"})
    change(model_folder)
    push(model_folder, REPO)
    assert {"NOTICE", "samples.txt"} < set(hub.repo(REPO).files())


# --- where to ------------------------------------------------------------------------------------


def test_private_makes_a_private_repository(hub: HubServer, model_folder: Path):
    push(model_folder, REPO, private=True)
    assert hub.repo(REPO).private
    push(model_folder, REPO)
    assert hub.repo(REPO).private


def test_a_private_push_to_a_public_repository_is_refused(hub: HubServer, model_folder: Path):
    hub.store.create("model", REPO)
    with pytest.raises(HubError, match="is public: make it private"):
        push(model_folder, REPO, private=True)
    assert is_untouched(hub)


# --- before the work ------------------------------------------------------------------------------


def test_a_new_repository_is_made_before_the_work(hub: HubServer, model_folder: Path):
    prepare_repo(REPO, private=True)
    assert hub.repo(REPO).private
    push(model_folder, REPO, private=True)
    assert set(hub.repo(REPO).files()) == FILES


def test_a_repository_that_is_there_stays_as_it_is(hub: HubServer, model_folder: Path):
    push(model_folder, REPO)
    before = hub.repo(REPO).history()
    hub.requests.clear()
    prepare_repo(REPO, private=True)
    assert hub.asked("^(POST|PUT)") == []
    assert hub.repo(REPO).history() == before
    assert not hub.repo(REPO).private


@pytest.mark.parametrize("is_there", [True, False])
def test_a_token_that_may_not_write_is_refused_before_the_work(is_there: bool, hub: HubServer):
    if is_there:
        hub.store.create("model", REPO)
    with pytest.raises(HubError, match="your token needs the permission"):
        prepare_repo(REPO, token=READER)


def test_a_model_of_another_library_is_refused_before_the_work(hub: HubServer):
    hub.store.put(REPO, {"README.md": b"---\nlibrary_name: keras\n---\n"})
    with pytest.raises(HubError, match="contains a model of the library 'keras'"):
        prepare_repo(REPO)


def test_a_missing_branch_is_made(hub: HubServer, model_folder: Path):
    push(model_folder, REPO, revision="wip/a")
    repo = hub.repo(REPO)
    assert set(repo.files("wip/a")) == FILES
    assert repo.files("main") == {}
    change(model_folder)
    push(model_folder, REPO, revision="wip/a", message="again")
    assert repo.history("wip/a")[0] == "again"


def test_a_pull_request_leaves_main_alone(hub: HubServer, model_folder: Path):
    push(model_folder, REPO)
    main = hub.repo(REPO).branches["main"]
    change(model_folder)
    pushed = push(model_folder, REPO, create_pr=True, message="better")
    assert pushed.url == f"{hub.url}/{REPO}/discussions/1"
    assert hub.repo(REPO).branches["main"] == main
    assert hub.repo(REPO).history("refs/pr/1")[0] == "better"


def test_a_reader_may_propose_but_not_push(hub: HubServer, model_folder: Path):
    push(model_folder, REPO)
    change(model_folder)
    with pytest.raises(HubError, match="your token needs the permission"):
        push(model_folder, REPO, token=READER)
    push(model_folder, REPO, token=READER, create_pr=True)
    assert list(hub.repo(REPO).pull_requests) == ["refs/pr/1"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"revision": "wip", "create_pr": True}, "not both"),
        ({"revision": "a" * 40}, "is a commit"),
        ({"revision": "../main"}, "not a valid branch"),
        ({"revision": "a b"}, "not a valid branch"),
    ],
)
def test_impossible_branches_are_refused_here(
    options: dict[str, object], sentence: str, hub: HubServer, model_folder: Path
):
    with pytest.raises(HubError, match=sentence):
        push(model_folder, REPO, **options)  # type: ignore[arg-type]  # one of each
    assert hub.requests == []


def test_a_tag_takes_no_push(hub: HubServer, model_folder: Path):
    push(model_folder, REPO)
    repo = hub.repo(REPO)
    repo.tags["v1"] = repo.branches["main"]
    change(model_folder)
    with pytest.raises(HubError, match="'v1' is a tag; name a branch"):
        push(model_folder, REPO, revision="v1")
    assert repo.history("v1") == repo.history() == [TITLE, "initial commit"]


@pytest.mark.parametrize("name", ["model", "a/b/c", "user/", "user/na me", "user/x@v1", "-a/b"])
def test_impossible_names_are_refused_here(name: str, hub: HubServer, model_folder: Path):
    with pytest.raises(HubError, match="must be USER/NAME"):
        push(model_folder, name)
    assert hub.requests == []


@pytest.mark.parametrize(
    "files",
    [
        {"config.json": b'{"model_type": "marian"}', "pytorch_model.bin": b"x"},
        {"README.md": b"---\nlibrary_name: transformers\n---\n"},
        {"model.safetensors": b"x"},
    ],
)
def test_another_librarys_model_is_not_overwritten(
    files: dict[str, bytes], hub: HubServer, model_folder: Path
):
    hub.store.put(REPO, files)
    with pytest.raises(HubError, match="push to a new name"):
        push(model_folder, REPO)
    assert hub.repo(REPO).files() == files


def test_our_tag_is_enough_to_push_again(hub: HubServer, model_folder: Path):
    card = b"---\ntags: [hubnmt]\n---\n"
    hub.store.put(REPO, {"README.md": card, "config.json": b'{"model_type": "guessed"}'})
    push(model_folder, REPO)
    assert set(hub.repo(REPO).files()) == FILES


def test_another_persons_account_is_refused(hub: HubServer, model_folder: Path):
    with pytest.raises(HubError, match="the Hub forbids this for other/model"):
        push(model_folder, "other/model")


def test_without_a_token_there_is_a_way_to_get_one(
    hub: HubServer, model_folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(HubError, match=r"there is no token .*tokens, then .*hf auth login"):
        push(model_folder, REPO)


# --- before the first byte -----------------------------------------------------------------------


def _break_weights(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4])


def _break_config(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"d_model": 24}))


def _link_card(folder: Path) -> None:
    outside = folder.parent / "outside.md"
    (folder / "README.md").rename(outside)
    (folder / "README.md").symlink_to(outside)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (_break_weights, "invalid safetensors file"),
        (_break_config, "has shape"),
        (_link_card, "file outside the folder"),
        (lambda f: (f / "tokenizer.json").unlink(), "no such file"),
        (lambda f: (f / "README.md").write_text("# hello"), "library_name is not hubnmt"),
        (lambda f: (f / "README.md").write_text("---\n[a\n---\n"), "not valid YAML"),
        (lambda f: (f / "README.md").open("a").write(TOKEN) and None, "contains a Hub token"),
        (
            lambda f: (f / "README.md").write_text(
                "---\nlanguage: [de, en]\nlibrary_name: hubnmt\ntags: [hubnmt]\n"
                "model-index: [{name: x}]\n---\n"
            ),
            "model_index",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:unclosed file")
def test_an_unsound_folder_sends_nothing(
    spoil: Callable[[Path], None], sentence: str, hub: HubServer, model_folder: Path
):
    spoil(model_folder)
    with pytest.raises(ModelFolderError, match=sentence):
        push(model_folder, REPO)
    assert hub.requests == []


def test_a_folder_that_is_not_there_is_said(hub: HubServer, tmp_path: Path):
    with pytest.raises(ModelFolderError, match="no such folder"):
        push(tmp_path / "nowhere", REPO)


def test_a_pulled_model_can_be_pushed_on(hub: HubServer, model_folder: Path):
    push(model_folder, REPO)
    cached = pull(HubReference(REPO)).folder
    assert (cached / "config.json").is_symlink()
    push(cached, "user/copy")
    weights = "model.safetensors"
    assert hub.repo("user/copy").files()[weights] == hub.repo(REPO).files()[weights]
    assert len(hub.asked("^PUT")) == 1


def test_collect_is_what_leaves(model_folder: Path):
    assert set(collect(model_folder, REPO)) == FILES


# --- trouble on the way --------------------------------------------------------------------------

STEPS = [
    "GET /api/models/user/de-en-tiny/revision",
    "POST /api/repos/create",
    "POST .*preupload",
    "POST .*info/lfs",
    "PUT /objects",
    "POST .*validate-yaml",
    COMMIT,
]


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("step", STEPS)
def test_a_hiccup_is_not_noticed(status: int, step: str, hub: HubServer, model_folder: Path):
    hub.faults.add(Fault(step, times=1, status=status))
    push(model_folder, REPO)
    assert len(hub.asked(step)) >= 2
    assert hub.repo(REPO).history() == [TITLE, "initial commit"]


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (401, "does not accept this token"),
        (403, "forbids"),
        (404, "not found"),
        (429, "too many requests"),
        (500, r"server error \(500\)"),
        (503, r"server error \(503\)"),
    ],
)
@pytest.mark.parametrize("step", [step for step in STEPS if "yaml" not in step])
def test_lasting_trouble_is_one_line_and_the_next_try_works(
    status: int, sentence: str, step: str, hub: HubServer, model_folder: Path
):
    hub.faults.add(Fault(step, times=None, status=status))
    with pytest.raises(HubError, match=sentence) as error:
        push(model_folder, REPO)
    assert "\n" not in str(error.value)
    assert TOKEN not in str(error.value)
    assert is_untouched(hub)
    hub.faults.clear()
    push(model_folder, REPO)
    assert hub.repo(REPO).history() == [TITLE, "initial commit"]


def test_a_card_check_that_never_answers_is_said(hub: HubServer, model_folder: Path):
    hub.faults.add(Fault("validate-yaml", times=None, status=503))
    with pytest.raises(HubUnreachableError, match="did not respond like a Hub"):
        push(model_folder, REPO)
    assert is_untouched(hub)


@pytest.mark.parametrize("cut", [0, 1, 3000])
def test_an_upload_that_breaks_is_sent_again(cut: int, hub: HubServer, model_folder: Path):
    hub.faults.add(Fault("PUT /objects", times=2, cut_after=cut))
    push(model_folder, REPO)
    assert len(hub.asked("PUT /objects")) == 3
    assert set(hub.repo(REPO).files()) == FILES


def test_an_upload_that_always_breaks_changes_nothing(hub: HubServer, model_folder: Path):
    hub.faults.add(Fault("PUT /objects", times=None, cut_after=100))
    with pytest.raises(HubUnreachableError, match="cannot reach"):
        push(model_folder, REPO)
    assert is_untouched(hub)
    hub.faults.clear()
    push(model_folder, REPO)
    assert set(hub.repo(REPO).files()) == FILES


@pytest.mark.parametrize("times", [1, 2])
def test_a_commit_whose_answer_is_lost_has_happened(times: int, hub: HubServer, model_folder: Path):
    hub.faults.add(Fault(COMMIT, times=times, lose_answer=True))
    pushed = push(model_folder, REPO)
    assert hub.repo(REPO).history() == [TITLE, "initial commit"]
    assert pushed.commit == hub.repo(REPO).branches["main"]
    assert set(pushed.changed) == FILES


def test_a_pull_request_whose_answer_is_lost_is_opened_once(hub: HubServer, model_folder: Path):
    push(model_folder, REPO)
    change(model_folder)
    push(model_folder, REPO, create_pr=True)
    (model_folder / "decoding.json").write_text('{"beam_size": 7}')
    hub.faults.add(Fault(COMMIT, times=1, lose_answer=True))
    pushed = push(model_folder, REPO, create_pr=True)
    assert pushed.url == f"{hub.url}/{REPO}/discussions/2"
    assert list(hub.repo(REPO).pull_requests) == ["refs/pr/1", "refs/pr/2"]


def test_two_pushes_at_once_do_not_overwrite_each_other(hub: HubServer, model_folder: Path):
    push(model_folder, REPO)
    change(model_folder)
    theirs = {"decoding.json": b'{"beam_size": 9}'}
    hub.faults.add(Fault(COMMIT, before=lambda: hub.store.put(REPO, theirs) and None))
    with pytest.raises(HubError, match=r"another push; nothing was overwritten"):
        push(model_folder, REPO)
    assert hub.repo(REPO).history() == ["put", TITLE, "initial commit"]
    assert hub.repo(REPO).files()["decoding.json"] == theirs["decoding.json"]
    push(model_folder, REPO)
    assert hub.repo(REPO).history()[0] == TITLE


@pytest.mark.parametrize("step", ["GET /api/models", "PUT /objects", "POST .*preupload"])
def test_ctrl_c_before_the_commit_changes_nothing(step: str, hub: HubServer, model_folder: Path):
    push(model_folder, REPO)
    before = hub.repo(REPO).files()
    change(model_folder)
    hub.faults.add(Fault(step, before=interrupt, pause_s=0.2))
    with pytest.raises(KeyboardInterrupt):
        push(model_folder, REPO)
    assert hub.repo(REPO).files() == before
    push(model_folder, REPO)
    assert len(hub.repo(REPO).history()) == 3


def test_ctrl_c_during_the_commit_leaves_all_of_it_or_nothing(hub: HubServer, model_folder: Path):
    hub.faults.add(Fault(COMMIT, before=interrupt, pause_s=0.2))
    with pytest.raises(KeyboardInterrupt):
        push(model_folder, REPO)
    assert set(hub.repo(REPO).files()) in (set(), FILES)
    push(model_folder, REPO)
    assert hub.repo(REPO).history() == [TITLE, "initial commit"]


# --- one commit -----------------------------------------------------------------------------------

OTHER = "user/any"


def make_request(
    contents: dict[str, Content], *unwanted: str, create_pr: bool = False
) -> CommitRequest:
    return CommitRequest(
        repo=OTHER,
        kind="model",
        revision="main",
        contents=contents,
        unwanted=unwanted,
        message="a message",
        create_pr=create_pr,
    )


def test_files_and_bytes_are_compared_by_content(hub: HubServer, tmp_path: Path):
    hub.store.put(OTHER, {"a.txt": b"same", "b.safetensors": b"same", "c.txt": b"old"})
    (tmp_path / "file").write_bytes(b"same")
    state = read_repo(connect(), OTHER, "main")
    for content in (b"same", tmp_path / "file"):
        asked = make_request(
            {"a.txt": content, "b.safetensors": content, "c.txt": content, "d": content}
        )
        assert differences(asked, state) == (["c.txt", "d"], [])


def test_what_is_unwanted_goes_in_the_same_commit(hub: HubServer):
    hub.store.put(OTHER, {"old.txt": b"x", "other.txt": b"y"})
    state = read_repo(connect(), OTHER, "main")
    done = commit(connect(), make_request({"new.txt": b"z"}, "old.txt", "never.txt"), state)
    assert done.changed == ("new.txt", "old.txt")
    assert hub.repo(OTHER).files() == {"new.txt": b"z", "other.txt": b"y"}
    assert hub.repo(OTHER).history() == ["a message", "put", "initial commit"]


def test_no_difference_no_commit(hub: HubServer):
    hub.store.put(OTHER, {"a": b"x"})
    state = read_repo(connect(), OTHER, "main")
    hub.requests.clear()
    done = commit(connect(), make_request({"a": b"x"}), state)
    assert (done.commit, done.changed) == (state.commit, ())
    assert hub.requests == []


def test_a_state_that_is_no_longer_true_is_not_built_upon(hub: HubServer):
    hub.store.put(OTHER, {"a": b"x"})
    state = read_repo(connect(), OTHER, "main")
    hub.store.put(OTHER, {"a": b"theirs"})
    with pytest.raises(HTTP_ERROR, match="412"):
        commit(connect(), make_request({"a": b"ours"}), state)
    assert hub.repo(OTHER).files() == {"a": b"theirs"}


def test_a_lost_answer_for_a_commit_that_did_not_happen_is_no_success(hub: HubServer):
    hub.store.create("model", OTHER)
    state = read_repo(connect(), OTHER, "main")
    hub.faults.add(Fault("/commit/", times=None, status=500))
    with pytest.raises(HTTP_ERROR):
        commit(connect(), make_request({"a": b"x"}), state)
    assert len(hub.asked("/commit/")) == 3
    assert hub.repo(OTHER).files() == {}


def test_a_proposal_of_another_person_is_not_taken_for_ours(hub: HubServer):
    hub.store.create("model", OTHER)
    api = connect()
    state = read_repo(api, OTHER, "main")
    first = commit(api, make_request({"a": b"x"}, create_pr=True), state)
    hub.faults.add(Fault("/commit/", times=1, status=500))
    second = commit(api, make_request({"a": b"x"}, create_pr=True), state)
    assert first.pull_request != second.pull_request
    assert len(hub.repo(OTHER).pull_requests) == 2

"""One commit that makes a repository what it should be."""

from pathlib import Path

import pytest

from hubnmt.hub.client import connect, read_repo
from hubnmt.hub.commit import Content, Wish, commit, differences
from hubnmt.hub.trouble import HTTP_ERROR
from tests.hub_server import Fault, HubServer

REPO = "user/any"


def wish(contents: dict[str, Content], *unwanted: str, create_pr: bool = False) -> Wish:
    return Wish(
        repo=REPO,
        kind="model",
        revision="main",
        contents=contents,
        unwanted=unwanted,
        message="a message",
        create_pr=create_pr,
    )


def test_files_and_bytes_are_compared_by_content(hub: HubServer, tmp_path: Path):
    hub.store.put(REPO, {"a.txt": b"same", "b.safetensors": b"same", "c.txt": b"old"})
    (tmp_path / "file").write_bytes(b"same")
    state = read_repo(connect(), REPO, "main")
    for content in (b"same", tmp_path / "file"):
        asked = wish({"a.txt": content, "b.safetensors": content, "c.txt": content, "d": content})
        assert differences(asked, state) == (["c.txt", "d"], [])


def test_what_is_unwanted_goes_in_the_same_commit(hub: HubServer):
    hub.store.put(REPO, {"old.txt": b"x", "other.txt": b"y"})
    state = read_repo(connect(), REPO, "main")
    done = commit(connect(), wish({"new.txt": b"z"}, "old.txt", "never.txt"), state)
    assert done.changed == ("new.txt", "old.txt")
    assert hub.repo(REPO).files() == {"new.txt": b"z", "other.txt": b"y"}
    assert hub.repo(REPO).history() == ["a message", "put", "initial commit"]


def test_no_difference_no_commit(hub: HubServer):
    hub.store.put(REPO, {"a": b"x"})
    state = read_repo(connect(), REPO, "main")
    hub.requests.clear()
    done = commit(connect(), wish({"a": b"x"}), state)
    assert (done.commit, done.changed) == (state.commit, ())
    assert hub.requests == []


def test_a_state_that_is_no_longer_true_is_not_built_upon(hub: HubServer):
    hub.store.put(REPO, {"a": b"x"})
    state = read_repo(connect(), REPO, "main")
    hub.store.put(REPO, {"a": b"theirs"})
    with pytest.raises(HTTP_ERROR, match="412"):
        commit(connect(), wish({"a": b"ours"}), state)
    assert hub.repo(REPO).files() == {"a": b"theirs"}


def test_a_lost_answer_for_a_commit_that_did_not_happen_is_no_success(hub: HubServer):
    hub.store.create("model", REPO)
    state = read_repo(connect(), REPO, "main")
    hub.faults.add(Fault("/commit/", times=None, status=500))
    with pytest.raises(HTTP_ERROR):
        commit(connect(), wish({"a": b"x"}), state)
    assert len(hub.asked("/commit/")) == 3
    assert hub.repo(REPO).files() == {}


def test_a_proposal_of_another_person_is_not_taken_for_ours(hub: HubServer):
    hub.store.create("model", REPO)
    api = connect()
    state = read_repo(api, REPO, "main")
    first = commit(api, wish({"a": b"x"}, create_pr=True), state)
    hub.faults.add(Fault("/commit/", times=1, status=500))
    second = commit(api, wish({"a": b"x"}, create_pr=True), state)
    assert first.pull_request != second.pull_request
    assert len(hub.repo(REPO).pull_requests) == 2

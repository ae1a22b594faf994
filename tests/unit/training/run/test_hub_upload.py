"""Publishing: the Hub gets the folders that were promised, and its failures do no harm."""

import logging
from pathlib import Path

import pytest

from hubnmt.errors import ConfigError, HubError
from tests.hub import READER, REPO
from tests.hub_server import Fault, HubServer
from training.run.hub_upload import Publisher

MESSAGE = "Best of training: validation BLEU 33.33 at step 1,500"


@pytest.mark.parametrize("is_public", [False, True])
def test_the_result_is_pushed_with_its_score(
    is_public: bool, hub: HubServer, model_folder: Path
) -> None:
    """To a private repository if it is new; one that is there stays as it is."""
    if is_public:
        hub.store.create("model", REPO)
    publisher = Publisher(REPO)
    publisher.prepare()
    publisher.push_checkpoint(model_folder, step=250)  # not asked for
    publisher.push_result(model_folder, step=1500, bleu=33.333)
    assert hub.repo(REPO).history() == [MESSAGE, "initial commit"]
    assert hub.repo(REPO).private is not is_public


def test_checkpoints_are_pushed_if_asked_for(hub: HubServer, model_folder: Path) -> None:
    Publisher(REPO, checkpoints=True).push_checkpoint(model_folder, step=2500)
    assert hub.repo(REPO).history() == ["Step 2,500, in training", "initial commit"]
    assert hub.repo(REPO).private


def test_without_a_place_nothing_is_asked(hub: HubServer, model_folder: Path) -> None:
    publisher = Publisher(None)
    publisher.prepare()
    publisher.push_checkpoint(model_folder, step=1)
    publisher.push_result(model_folder, step=1, bleu=1.0)
    assert hub.requests == []


def test_a_token_that_may_not_write_is_refused_before_training(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.store.create("model", REPO)
    monkeypatch.setenv("HF_TOKEN", READER)
    with pytest.raises(HubError, match="your token needs the permission"):
        Publisher(REPO).prepare()


def test_a_checkpoint_that_cannot_be_pushed_does_not_end_the_run(
    hub: HubServer, model_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hub.faults.add(Fault("commit", times=None, status=503))
    with caplog.at_level(logging.WARNING):
        Publisher(REPO, checkpoints=True).push_checkpoint(model_folder, step=250)
    assert "step 250 was not pushed to the Hub: the Hub at" in caplog.text


def test_a_result_that_cannot_be_pushed_says_how_to_try_again(
    hub: HubServer, model_folder: Path
) -> None:
    hub.faults.add(Fault("commit", times=None, status=503))
    with pytest.raises(HubError, match=rf"upload with: hubnmt push {model_folder} {REPO}$"):
        Publisher(REPO).push_result(model_folder, step=1, bleu=1.0)


def test_checkpoints_without_a_place_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"--hub-checkpoints requires --push USER/NAME"):
        Publisher(None, checkpoints=True)


@pytest.mark.parametrize("repo", ["", "name", "a/b/c", "a b/c", "https://hf.co/a/b", "a/"])
def test_a_name_that_is_none_is_refused_before_training(repo: str) -> None:
    with pytest.raises(ConfigError, match=r"--push .*: must be USER/NAME"):
        Publisher(repo)

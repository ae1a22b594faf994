"""Publishing: the Hub gets the folders that were promised, and its failures do no harm."""

import logging
from pathlib import Path
from typing import Any

import pytest

from hubnmt.errors import ConfigError, HubError
from training import publish
from training.publish import Publisher

Pushed = list[tuple[str, str, dict[str, Any]]]


@pytest.fixture
def pushed(monkeypatch: pytest.MonkeyPatch) -> Pushed:
    """Put a stand-in for the Hub in place; the list holds what was pushed."""
    calls: Pushed = []

    def push(folder: Path, repo: str, **options: Any) -> None:
        calls.append((str(folder), repo, options))

    monkeypatch.setattr(publish, "push", push)
    return calls


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    def push(*_: Any, **__: Any) -> None:
        raise HubError("the Hub cannot be reached")

    monkeypatch.setattr(publish, "push", push)


def test_the_result_is_pushed_in_private_with_its_score(pushed: Pushed) -> None:
    publisher = Publisher("me/farm")
    publisher.push_checkpoint(Path("runs/farm/last"), step=250)  # not asked for
    publisher.push_result(Path("runs/farm/best"), step=1500, bleu=33.333)
    message = "Best of training: validation BLEU 33.33 at step 1,500"
    assert pushed == [("runs/farm/best", "me/farm", {"private": True, "message": message})]


def test_checkpoints_are_pushed_if_asked_for(pushed: Pushed) -> None:
    Publisher("me/farm", checkpoints=True).push_checkpoint(Path("runs/farm/last"), step=2500)
    options = {"private": True, "message": "Step 2,500, in training"}
    assert pushed == [("runs/farm/last", "me/farm", options)]


def test_without_a_place_nothing_is_pushed(pushed: Pushed) -> None:
    publisher = Publisher(None)
    publisher.push_checkpoint(Path("last"), step=1)
    publisher.push_result(Path("best"), step=1, bleu=1.0)
    assert pushed == []


@pytest.mark.usefixtures("unreachable")
def test_a_checkpoint_that_cannot_be_pushed_does_not_end_the_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        Publisher("me/farm", checkpoints=True).push_checkpoint(Path("last"), step=250)
    assert "step 250 is not on the Hub: the Hub cannot be reached" in caplog.text


@pytest.mark.usefixtures("unreachable")
def test_a_result_that_cannot_be_pushed_says_how_to_try_again() -> None:
    with pytest.raises(HubError, match="try again: hubnmt push runs/farm/best me/farm --private"):
        Publisher("me/farm").push_result(Path("runs/farm/best"), step=1, bleu=1.0)


def test_checkpoints_without_a_place_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"--hub-checkpoints needs --push USER/NAME"):
        Publisher(None, checkpoints=True)


@pytest.mark.usefixtures("pushed")
@pytest.mark.parametrize("repo", ["", "name", "a/b/c", "a b/c", "https://hf.co/a/b", "a/"])
def test_a_name_that_is_none_is_refused_before_training(repo: str) -> None:
    with pytest.raises(ConfigError, match=r"--push .*: must be USER/NAME"):
        Publisher(repo)

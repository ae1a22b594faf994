"""Publishing: the Hub gets the folders that were promised, and its failures do no harm."""

import logging
from pathlib import Path

import pytest

from hubnmt.errors import ConfigError
from tests.hub import REPO
from tests.hub_server import Fault, HubServer
from training.run.hub_upload import Publisher

MESSAGE = "Best of training: validation BLEU 33.33 at step 1,500"


def test_a_checkpoint_that_cannot_be_pushed_does_not_end_the_run(
    hub: HubServer, model_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hub.faults.add(Fault("commit", times=None, status=503))
    with caplog.at_level(logging.WARNING):
        Publisher(REPO, checkpoints=True).push_checkpoint(model_folder, step=250)
    assert "step 250 was not pushed to the Hub: the Hub at" in caplog.text


@pytest.mark.parametrize("repo", ["", "name", "a/b/c", "a b/c", "https://hf.co/a/b", "a/"])
def test_a_name_that_is_none_is_refused_before_training(repo: str) -> None:
    with pytest.raises(ConfigError, match=r"--push .*: must be USER/NAME"):
        Publisher(repo)

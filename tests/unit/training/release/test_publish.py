"""Publishing a run: the card has what was measured, and the record of the run travels with it."""

import copy
import logging
import shutil
from pathlib import Path

import pytest

from hubnmt.checkpoint.folder import load_model
from hubnmt.hub.push import push
from hubnmt.translator import Translator
from hubnmt.ui.services.learn import Learn
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.translate import Handlers
from tests.hub import REPO
from tests.hub_server import HubServer
from training.finish import finish_untuned
from training.release.records import add_records
from training.run.trainer import Run


def test_a_model_that_has_learned_nothing_is_not_offered(
    farm_run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ended = copy.copy(farm_run)
    ended.folder = Path(shutil.copytree(farm_run.folder, tmp_path / "farm"))
    with caplog.at_level(logging.INFO, logger="training"):
        finish_untuned(ended)
    assert "This model has learned nothing yet: on the validation set it has BLEU" in caplog.text
    assert "training.train --resume" in caplog.text
    assert "hubnmt push" not in caplog.text
    card = load_model(ended.folder / "best").card
    assert "## Limits\n\nThis model has learned nothing yet" in card


def test_the_page_shows_how_a_model_of_the_hub_was_trained(
    farm_run: Run, hub: HubServer, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(farm_run.folder, tmp_path / "farm"))
    add_records(folder, folder / "best")
    push(folder / "best", REPO)
    board = hub.repo(REPO).files()["runs/events.out.tfevents.hubnmt"]
    assert b"valid/bleu" in board
    learn = Learn(Handlers(ModelRegistry(Translator.from_pretrained, {}, opening=REPO)))
    assert learn.run("") is None  # not downloaded for this alone
    learn.handlers.registry.get("")
    found = learn.run("")
    assert found is not None
    assert [step for step, _ in found.curves["bleu"]] == [4, 8]
    assert len(found.samples) == 3

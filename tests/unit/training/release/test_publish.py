"""Publishing a run: the card has what was measured, and the record of the run travels with it."""

import copy
import json
import logging
import shlex
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
from training.config.data import DataConfig
from training.release.measure import name_tests
from training.release.publish import add_records, next_commands, publish_run, subsample
from training.run.trainer import Run


def test_the_last_lines_keep_a_folder_with_spaces_together() -> None:
    commands = [shlex.split(line) for line in next_commands(Path("my runs/x"), None)]
    assert ["python", "-m", "training.finish", "my runs/x", "models/x"] in commands
    assert ["hubnmt", "push", "my runs/x/best", "USER/x", "--private"] in commands


def test_each_group_of_test_files_is_a_test_set_with_a_name() -> None:
    values = {"src_lang": "de", "tgt_lang": "en", "dataset": "user/name"}
    data = DataConfig.from_dict({**values, "test": ["a b/t.de.gz", "a b/t.en.gz", "u.jsonl"]})
    assert [(test.name, test.corpus.files) for test in name_tests(data)] == [
        ("a b/t", ("a b/t.de.gz", "a b/t.en.gz")),
        ("u", ("u.jsonl",)),
    ]


def test_a_model_that_has_learned_nothing_is_not_offered(
    farm_run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ended = copy.copy(farm_run)
    ended.folder = Path(shutil.copytree(farm_run.folder, tmp_path / "farm"))
    with caplog.at_level(logging.INFO, logger="training"):
        publish_run(ended)
    assert "This model has learned nothing yet: on the validation set it has BLEU" in caplog.text
    assert "training.train --resume" in caplog.text
    assert "hubnmt push" not in caplog.text
    card = load_model(ended.folder / "best").card
    assert "## Limits\n\nThis model has learned nothing yet" in card


def test_an_unchanged_pretrained_model_is_not_offered(
    farm_run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ended = copy.copy(farm_run)
    ended.folder = Path(shutil.copytree(farm_run.folder, tmp_path / "farm"))
    path = ended.folder / "best" / "validation.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(record | {"step": 0, "bleu": 99.0, "chrf": 99.0}), encoding="utf-8")
    with caplog.at_level(logging.INFO, logger="training"):
        publish_run(ended)
    assert "no validation improved on the pretrained model" in caplog.text
    assert "hubnmt push" not in caplog.text
    assert "training.finish" not in caplog.text


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


def test_a_long_record_is_thinned_evenly_and_keeps_its_end() -> None:
    parts = [f"{n:09}\n" for n in range(100)]
    assert subsample(parts, 1000) == parts
    kept = subsample(parts, 333)
    assert kept == parts[3::4]
    assert subsample(parts[:1], 3) == parts[:1]  # left to the upload, which leaves it out

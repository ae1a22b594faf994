"""The record of a training run travels with its model."""

import shutil
from pathlib import Path

from hubnmt.hub.push import push
from hubnmt.translator import Translator
from hubnmt.ui.services.learn import Lessons
from hubnmt.ui.services.registry import ModelRegistry
from tests.hub import REPO
from tests.hub_server import HubServer
from training.release.records import add_records, subsample
from training.run.trainer import Run


def test_the_page_shows_how_a_model_of_the_hub_was_trained(
    farm_run: Run, hub: HubServer, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(farm_run.folder, tmp_path / "farm"))
    add_records(folder, folder / "best")
    push(folder / "best", REPO)
    board = hub.repo(REPO).files()["runs/events.out.tfevents.hubnmt"]
    assert b"valid/bleu" in board
    lessons = Lessons(ModelRegistry(Translator.from_pretrained, {}, opening=REPO))
    assert lessons.run_of("") is None  # not downloaded for this alone
    lessons.registry.get("")
    found = lessons.run_of("")
    assert found is not None
    assert [step for step, _ in found.curves["bleu"]] == [4, 8]
    assert len(found.samples) == 3


def test_a_long_record_is_thinned_evenly_and_keeps_its_end() -> None:
    parts = [f"{n:09}\n" for n in range(100)]
    assert subsample(parts, 1000) == parts
    kept = subsample(parts, 333)
    assert kept == parts[3::4]
    assert subsample(parts[:1], 3) == parts[:1]  # left to the upload, which leaves it out

"""Publishing a run: what was measured stands in the card, once, and nothing else is touched."""

import copy
import logging
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from hubnmt.checkpoint.folder import load_model
from training.config.data import DataConfig
from training.release.publish import next_commands, publish_run
from training.run.trainer import Run


def make_data(**values: Any) -> DataConfig:
    return DataConfig.from_dict(
        {"src_lang": "de", "tgt_lang": "en", "dataset": "user/name"} | values
    )


def test_the_last_lines_name_all_files_in_words_that_a_shell_keeps_together() -> None:
    data = make_data(valid=["v.tsv", "w.tsv.gz"], test=["a b/t.de.gz", "a b/t.en.gz", "u.jsonl"])
    commands = [shlex.split(line) for line in next_commands(Path("my runs/x"), data, None)]
    (finish,) = (words for words in commands if "training.finish" in words)
    valid, test = ["--valid", "v.tsv,w.tsv.gz"], ["--test", "a b/t.de.gz,a b/t.en.gz"]
    names = [["--test-name", "a b/t"], ["--test-name", "u"]]
    said = [*valid, *test, *names[0], "--test", "u.jsonl", *names[1]]
    assert finish[3:] == ["my runs/x", "models/x", *said]
    assert ["hubnmt", "push", "my runs/x/best", "USER/x", "--private"] in commands


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

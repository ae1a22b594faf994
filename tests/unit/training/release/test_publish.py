"""Publishing a run: what was measured stands in the card, once, and nothing else is touched."""

import copy
import logging
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hubnmt.checkpoint.folder import load_model
from training.config.data import DataConfig
from training.config.recipe import load_recipe
from training.release.publish import last_lines, name_tests, publish_run
from training.run.trainer import Run

FarmOptions = Callable[..., list[str]]
PublishRun = Callable[..., Path]


@pytest.fixture
def end(farm_run: Run, farm_recipe: Path, farm_options: FarmOptions, tmp_path: Path) -> PublishRun:
    """Publish a copy of the finished run with more settings; return its folder."""

    def call(*settings: str) -> Path:
        ended = copy.copy(farm_run)
        ended.config = load_recipe(farm_recipe, farm_options(tmp_path, *settings))
        ended.folder = Path(shutil.copytree(farm_run.folder, tmp_path / "farm"))
        publish_run(ended)
        return ended.folder

    return call


@pytest.fixture
def test_files(repo: Path, tmp_path: Path) -> str:
    """Seven pairs, none of them for validation."""
    for side in ("de", "en"):
        path = repo / "tests" / "fixtures" / f"farm.train.{side}"
        lines = path.read_text(encoding="utf-8").splitlines()[20:27]
        (tmp_path / f"seven.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return f"{tmp_path / 'seven.de'},{tmp_path / 'seven.en'}"


def read_results(folder: Path) -> list[dict[str, Any]]:
    head = yaml.safe_load(load_model(folder / "best").card.split("---\n")[1])
    results: list[dict[str, Any]] = head.get("model-index", [{"results": []}])[0]["results"]
    return results


def test_the_card_has_the_scores_of_the_best_model(
    end: PublishRun, test_files: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="training"):
        folder = end(f"data.test={test_files}")
    (result,) = read_results(folder)
    assert result["dataset"]["name"] == "seven"
    bleu = result["metrics"][0]["value"]
    assert f"seven: BLEU {bleu:.2f}  chrF " in caplog.text
    assert "| seven | 7 |" in load_model(folder / "best").card
    assert "measuring seven" in caplog.messages
    assert "## Among its best tenth" in load_model(folder / "best").card


def make_data(**values: Any) -> DataConfig:
    return DataConfig.from_dict(
        {"src_lang": "de", "tgt_lang": "en", "dataset": "user/name"} | values
    )


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, []),
        ({"test": ["x/seven.de.gz", "x/seven.en.gz"]}, [("seven", "")]),
        ({"test": ["a/t.de", "a/t.en", "b/t.tsv"]}, [("a/t", ""), ("b/t", "")]),
        ({"test_split": "test"}, [("user/name test", "user/name")]),
    ],
)
def test_each_test_set_has_a_name(values: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert [(test.name, test.dataset) for test in name_tests(make_data(**values))] == expected


def test_the_last_lines_name_all_files_in_words_that_a_shell_keeps_together() -> None:
    data = make_data(valid=["v.tsv", "w.tsv.gz"], test=["a b/t.de.gz", "a b/t.en.gz", "u.jsonl"])
    commands = [shlex.split(line) for line in last_lines(Path("my runs/x"), data, None)]
    (finish,) = (words for words in commands if "training.finish" in words)
    valid, test = ["--valid", "v.tsv,w.tsv.gz"], ["--test", "a b/t.de.gz,a b/t.en.gz"]
    names = [["--test-name", "a b/t"], ["--test-name", "u"]]
    said = [*valid, *test, *names[0], "--test", "u.jsonl", *names[1]]
    assert finish[3:] == ["my runs/x", "models/x", *said]
    assert ["hubnmt", "push", "my runs/x/best", "USER/x", "--private"] in commands


def test_a_model_that_has_learned_nothing_is_not_offered(
    end: PublishRun, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="training"):
        folder = end()
    assert "This model has learned nothing yet: on the validation set it has BLEU" in caplog.text
    assert "training.train --resume" in caplog.text
    assert "hubnmt push" not in caplog.text
    assert "## Limits\n\nThis model has learned nothing yet" in load_model(folder / "best").card

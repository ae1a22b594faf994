"""A user trains a model further on a table, by command: one from a folder, one from the Hub."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from hubnmt.checkpoint.folder import load_model
from tests.hub import REPO, read_folder
from tests.hub_server import HubServer
from tests.runs import read_metrics
from training.train import main

RECIPE = """
[run]
name = "mine"
folder = "{folder}/runs"
pretrained = "{start}"
max_steps = 4
eval_every = 2
device = "cpu"
dtype = "float32"

[data]
src_lang = "de"
tgt_lang = "en"
train = ["{folder}/mine.tsv"]
valid = ["{folder}/valid.tsv"]

[optimizer]
lr = 1e-4
schedule = "constant"
warmup_steps = 0
batch_tokens = 900
"""
Write = Callable[[object], str]


@pytest.fixture
def write_recipe(repo: Path, tmp_path: Path) -> Write:
    """Write the tables, and a recipe that starts from a model; return the recipe's path."""
    for split, name in (("train", "mine.tsv"), ("valid", "valid.tsv")):
        sides = [
            (repo / f"tests/fixtures/farm.{split}.{lang}").read_text(encoding="utf-8").splitlines()
            for lang in ("de", "en")
        ]
        rows = ["de\ten", *("\t".join(pair) for pair in zip(*sides, strict=True))]
        (tmp_path / name).write_text("\n".join(rows) + "\n", encoding="utf-8")

    def write(start: object) -> str:
        path = tmp_path / "mine.toml"
        path.write_text(RECIPE.format(folder=tmp_path, start=start), encoding="utf-8")
        return str(path)

    return write


def test_a_model_of_the_hub_is_trained_further_and_named_with_its_commit(
    write_recipe: Write, hub: HubServer, model_folder: Path, tmp_path: Path
) -> None:
    hub.store.put(REPO, read_folder(model_folder))
    commit = hub.repo(REPO).branches["main"]
    recipe = write_recipe(REPO)
    assert main([recipe, "--set", "run.max_steps=2"]) == 0
    mine = tmp_path / "runs" / "mine"
    card = load_model(mine / "best").card
    assert yaml.safe_load(card.split("---\n")[1])["base_model"] == REPO
    assert f"- started from: {REPO} at commit {commit}\n" in card
    hub.store.repos.clear()
    more = ["--resume", str(mine), "--set", "run.max_steps=4"]
    assert main([recipe, *more]) == 0  # it has all it needs
    assert [each["step"] for each in read_metrics(mine, "valid")] == [0, 2, 4]

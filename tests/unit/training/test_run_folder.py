import json
from pathlib import Path

import pytest
import torch

from hubnmt.errors import ConfigError
from training.run_folder import (
    choose_folder,
    claim_folder,
    describe_machine,
    load_settings,
    make_folder,
)

CPU = torch.device("cpu")


@pytest.fixture
def claimed(farm_recipe: Path, farm_options, tmp_path: Path) -> Path:
    """Claim a folder for the farm recipe with another rate and a short sitting."""
    overrides = farm_options(tmp_path, "optimizer.lr=0.5", "run.max_steps=3")
    config, every = load_settings(farm_recipe, overrides=overrides, resume=None)
    folder = choose_folder(config)
    claim_folder(folder, config, overrides=every, device=CPU)
    return folder


def test_a_claimed_folder_is_not_given_to_a_second_run(
    claimed: Path, farm_recipe: Path, farm_options, tmp_path: Path
) -> None:
    config, _ = load_settings(farm_recipe, overrides=farm_options(tmp_path), resume=None)
    with pytest.raises(ConfigError, match=r"--resume .*farm"):
        choose_folder(config)
    (claimed / "recipe.json").unlink()
    assert choose_folder(config) == claimed


def test_a_resumed_run_remembers_what_it_learns_by_and_not_how_long(
    claimed: Path, farm_recipe: Path
) -> None:
    config, _ = load_settings(farm_recipe, overrides=[], resume=claimed)
    assert config.optimizer.lr == 0.5
    assert config.data.train
    assert config.run.max_steps == 8


def test_how_long_may_change_and_what_is_learned_may_not(claimed: Path, farm_recipe: Path) -> None:
    config, _ = load_settings(farm_recipe, overrides=["run.max_steps=99"], resume=claimed)
    assert config.run.max_steps == 99
    with pytest.raises(ConfigError, match=r"optimizer\.lr was 0\.5, is 0\.1"):
        load_settings(farm_recipe, overrides=["optimizer.lr=0.1"], resume=claimed)


def test_without_the_record_of_overrides_the_recipe_stands_alone(
    claimed: Path, farm_recipe: Path
) -> None:
    (claimed / "machine.json").write_text("{torn", encoding="utf-8")
    with pytest.raises(ConfigError, match="train is empty"):
        load_settings(farm_recipe, overrides=[], resume=claimed)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"run\.folder: .*file"):
        make_folder(tmp_path / "file" / "run")


def test_the_record_says_what_ran_and_with_what(claimed: Path) -> None:
    record = json.loads((claimed / "machine.json").read_text(encoding="utf-8"))
    assert record["torch"] == torch.__version__
    assert "optimizer.lr=0.5" in record["overrides"]
    assert {*describe_machine(CPU)} <= {*record}

"""Runs of a second, by `tests/fixtures/farm.toml`."""

from pathlib import Path

import pytest
import torch

from tests.runs import FarmOptions, MakeRun, RunFarm
from training.config.recipe import load_recipe
from training.data.prepare import prepare_data
from training.distributed import ProcessGroup
from training.run.run_dir import record_start
from training.run.trainer import Trainer
from training.train import run


@pytest.fixture(scope="session")
def run_farm(farm_recipe: Path, farm_options: FarmOptions) -> RunFarm:
    """Train in this process; the run folder is `folder/farm`."""

    def train(folder: Path, *more: str, resume: bool = False) -> Trainer:
        overrides = farm_options(folder, *more)
        return run(farm_recipe, overrides=overrides, resume=folder / "farm" if resume else None)

    return train


@pytest.fixture(scope="session")
def farm_run(run_farm: RunFarm, tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    """A finished run of 8 steps, to look at and not to change."""
    return run_farm(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def make_run(farm_recipe: Path, farm_options: FarmOptions, tmp_path: Path) -> MakeRun:
    """Build a run that has not begun: no dropout and no clipping unless the settings say so."""

    def make(*more: str) -> Trainer:
        nothing = [f"model.{name}=0.0" for name in ("dropout", "attention_dropout", "ff_dropout")]
        options = farm_options(tmp_path, *nothing, "optimizer.grad_clip_norm=0.0", *more)
        recipe = load_recipe(farm_recipe, options)
        run_data, group = prepare_data(recipe, None), ProcessGroup(torch.device("cpu"))
        run_data.save(tmp_path)
        record_start(tmp_path, recipe, overrides=[], device=group.device)
        return Trainer(recipe, tmp_path, run_data, group)

    return make

"""The run folder: it belongs to one recipe, and says how it came to be."""

import errno
import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from hubnmt.errors import ConfigError, ModelFolderError
from hubnmt.inference.dtypes import DTYPES
from tests.runs import fill_disk
from training.run.run_dir import (
    choose_folder,
    claim_folder,
    describe_machine,
    forget_start,
    has_state,
    hold_folder,
    load_settings,
    make_folder,
)

CPU = torch.device("cpu")


@pytest.fixture
def claimed(farm_recipe: Path, farm_options, tmp_path: Path) -> Path:
    """Claim a folder for the farm recipe with another rate and a short sitting, and begin."""
    overrides = farm_options(tmp_path, "optimizer.lr=0.5", "run.max_steps=3")
    config, every = load_settings(farm_recipe, overrides=overrides, resume=None)
    folder = choose_folder(config)
    claim_folder(folder, config, overrides=every, device=CPU)
    (folder / "state.pt").write_bytes(b"a state")
    return folder


def test_a_claimed_folder_is_not_given_to_a_second_run(
    claimed: Path, farm_recipe: Path, farm_options, tmp_path: Path
) -> None:
    config, _ = load_settings(farm_recipe, overrides=farm_options(tmp_path), resume=None)
    with pytest.raises(ConfigError, match=r"--resume .*farm"):
        choose_folder(config)
    for path in (claimed / "state.pt", claimed / "recipe.json"):
        path.unlink()
    assert choose_folder(config) == claimed


@pytest.mark.parametrize("name", ["state.pt", "metrics.jsonl", "best"])
def test_whatever_a_start_would_overwrite_keeps_the_folder(
    name: str, farm_recipe: Path, farm_options, tmp_path: Path
) -> None:
    config, _ = load_settings(farm_recipe, overrides=farm_options(tmp_path), resume=None)
    (tmp_path / "farm" / name).mkdir(parents=True)
    with pytest.raises(ConfigError, match="already holds a run"):
        choose_folder(config)


def test_a_resumed_run_remembers_all_it_was_started_with(claimed: Path, farm_recipe: Path) -> None:
    config, _ = load_settings(farm_recipe, overrides=[], resume=claimed)
    assert config.optimizer.lr == 0.5
    assert config.data.train
    assert config.run.max_steps == 3


def test_a_folder_without_anything_to_lose_may_go_to_another_recipe(
    claimed: Path, farm_recipe: Path, farm_options, tmp_path: Path
) -> None:
    (claimed / "state.pt").unlink()
    other = ["optimizer.batch_tokens=99"]
    config, _ = load_settings(farm_recipe, overrides=other, resume=claimed)
    assert config.optimizer.batch_tokens == 99
    config, _ = load_settings(farm_recipe, overrides=farm_options(tmp_path), resume=None)
    assert choose_folder(config) == claimed


def test_a_run_cut_off_before_its_first_save_begins_again(claimed: Path) -> None:
    assert has_state(claimed)
    (claimed / "state.pt").unlink()
    assert not has_state(claimed)
    (claimed / "metrics.jsonl").write_text('{"step": 249}\n{"ste', encoding="utf-8")
    assert not has_state(claimed)


@pytest.mark.parametrize("left", ["best", "metrics.jsonl"])
def test_a_run_whose_state_is_gone_is_refused(left: str, claimed: Path) -> None:
    (claimed / "state.pt").unlink()
    if left == "best":
        (claimed / left).mkdir()
    else:
        (claimed / left).write_text('{"step": 250}\n', encoding="utf-8")
    with pytest.raises(
        ConfigError, match=r"farm: state\.pt is missing, so the run cannot be resumed"
    ):
        has_state(claimed)


def test_a_folder_is_held_by_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        hold_folder(tmp_path),
        pytest.raises(ConfigError, match="another process is training there"),
        hold_folder(tmp_path),
    ):
        pass
    with hold_folder(tmp_path):  # free again, although the file stays
        assert (tmp_path / ".lock").exists()


def test_a_file_system_without_locks_trains_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with hold_folder(tmp_path), hold_folder(tmp_path):
        pass


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
    assert record["dtype"] in DTYPES  # what `auto` came to
    assert {*describe_machine(CPU)} <= {*record}


@pytest.mark.parametrize(("n_threads", "said"), [(1, "CPU, 1 thread"), (2, "CPU, 2 threads")])
def test_the_record_counts_the_threads(
    n_threads: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: n_threads)
    assert describe_machine(CPU)["device"].endswith(said)


def test_the_machine_is_described_without_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    assert describe_machine(torch.device("cpu"))["git_commit"] is None


def test_a_setting_that_came_later_counts_as_its_default(claimed: Path, farm_recipe: Path) -> None:
    recipe = json.loads((claimed / "recipe.json").read_text(encoding="utf-8"))
    del recipe["log"], recipe["optimizer"]["schedule"], recipe["run"]["judged"]
    del recipe["data"]["corpora"]  # whose default is made anew each time
    (claimed / "recipe.json").write_text(json.dumps(recipe), encoding="utf-8")
    config, _ = load_settings(farm_recipe, overrides=[], resume=claimed)
    assert config.optimizer.schedule == "inverse_sqrt"
    with pytest.raises(ConfigError, match=r"run\.judged was 'average', is 'ema'"):
        load_settings(farm_recipe, overrides=["run.judged=ema"], resume=claimed)


def test_all_differences_are_told_at_once(claimed: Path, farm_recipe: Path) -> None:
    changes = ["optimizer.lr=0.1", "model.dropout=0.3", "data.max_tokens=9", "decoding.beam_size=7"]
    with pytest.raises(ConfigError, match="was started with another recipe") as caught:
        load_settings(farm_recipe, overrides=changes, resume=claimed)
    for word in ("optimizer.lr", "model.dropout", "data.max_tokens", "decoding.beam_size"):
        assert word in str(caught.value)


@pytest.mark.parametrize("name", ["machine.json", "recipe.json"])
def test_a_full_disk_does_not_use_up_a_name(
    name: str,
    farm_recipe: Path,
    farm_options,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    overrides = farm_options(tmp_path)
    config, _ = load_settings(farm_recipe, overrides=overrides, resume=None)
    folder = choose_folder(config)
    with monkeypatch.context() as patch:
        fill_disk(patch, name)
        with pytest.raises(ModelFolderError, match="No space left on device"):
            claim_folder(folder, config, overrides=overrides, device=CPU)
    assert choose_folder(config) == folder


def test_a_start_that_is_taken_back_leaves_the_name_free(claimed: Path) -> None:
    for name in ("best", "last"):
        (claimed / name).mkdir()
        (claimed / name / "config.json").write_text("{}", encoding="utf-8")
    (claimed / "metrics.jsonl").write_text('{"step": 0, "kind": "valid"}\n', encoding="utf-8")
    forget_start(claimed)
    assert not has_state(claimed)
    assert {path.name for path in claimed.iterdir()} == {"machine.json", "recipe.json"}


def test_the_record_names_the_model_a_run_starts_from(
    farm_recipe: Path, farm_options, tmp_path: Path
) -> None:
    config, every = load_settings(farm_recipe, overrides=farm_options(tmp_path), resume=None)
    start = {"name": "user/name", "commit": "0" * 40}
    claim_folder(tmp_path / "farm", config, overrides=every, device=CPU, pretrained=start)
    machine = json.loads((tmp_path / "farm" / "machine.json").read_text(encoding="utf-8"))
    assert machine["pretrained"] == start

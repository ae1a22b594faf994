"""The run folder: it belongs to one recipe, and says how it came to be."""

import errno
import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from hubnmt.errors import ConfigError
from hubnmt.inference.dtypes import DTYPES
from training.run.run_dir import (
    claim_folder,
    describe_machine,
    forget_start,
    has_state,
    hold_folder,
    load_settings,
)

CPU = torch.device("cpu")


@pytest.fixture
def claimed(farm_recipe: Path, farm_options, tmp_path: Path) -> Path:
    """Claim a folder for the farm recipe with another rate and a short sitting, and begin."""
    overrides = farm_options(tmp_path, "optimizer.lr=0.5", "run.max_steps=3")
    config, every = load_settings(farm_recipe, overrides=overrides, resume=None)
    folder = Path(config.run.folder, config.run.name)
    claim_folder(folder, config, overrides=every, device=CPU)
    (folder / "state.pt").write_bytes(b"a state")
    return folder


def test_a_run_cut_off_before_its_first_save_begins_again(claimed: Path) -> None:
    assert has_state(claimed)
    (claimed / "state.pt").unlink()
    assert not has_state(claimed)
    (claimed / "metrics.jsonl").write_text('{"step": 249}\n{"ste', encoding="utf-8")
    assert not has_state(claimed)


@pytest.mark.parametrize("left", ["best", "last"])
def test_a_run_whose_state_is_gone_is_refused(left: str, claimed: Path) -> None:
    (claimed / "state.pt").unlink()
    (claimed / left).mkdir()
    with pytest.raises(ConfigError, match=r"farm: state\.pt is missing, so the run cannot be"):
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


def test_the_record_says_what_ran_and_with_what(claimed: Path) -> None:
    record = json.loads((claimed / "machine.json").read_text(encoding="utf-8"))
    assert record["torch"] == torch.__version__
    assert "optimizer.lr=0.5" in record["overrides"]
    assert record["dtype"] in DTYPES  # what `auto` came to
    assert {*describe_machine(CPU)} <= {*record}


def test_the_machine_is_described_without_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    assert describe_machine(torch.device("cpu"))["git_commit"] is None


def test_a_start_that_is_taken_back_leaves_the_name_free(claimed: Path) -> None:
    for name in ("best", "last"):
        (claimed / name).mkdir()
        (claimed / name / "config.json").write_text("{}", encoding="utf-8")
    (claimed / "metrics.jsonl").write_text('{"step": 0, "kind": "valid"}\n', encoding="utf-8")
    forget_start(claimed)
    assert not has_state(claimed)
    assert {path.name for path in claimed.iterdir()} == {"machine.json", "recipe.json"}

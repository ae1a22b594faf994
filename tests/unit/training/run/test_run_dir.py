"""The run folder: it belongs to one recipe, and says how it came to be."""

from pathlib import Path

import pytest
import torch

from hubnmt.errors import ConfigError
from training.run.run_dir import (
    claim_folder,
    has_state,
    load_settings,
    lock_folder,
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


def test_a_folder_is_held_by_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        lock_folder(tmp_path),
        pytest.raises(ConfigError, match="another process is training there"),
        lock_folder(tmp_path),
    ):
        pass
    with lock_folder(tmp_path):  # free again, although the file stays
        assert (tmp_path / ".lock").exists()

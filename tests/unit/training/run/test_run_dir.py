"""The run folder: it belongs to one recipe, and says how it came to be."""

from pathlib import Path

import pytest

from hubnmt.errors import ConfigError
from training.run.run_dir import lock_folder


def test_a_folder_is_held_by_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        lock_folder(tmp_path),
        pytest.raises(ConfigError, match="another process is training there"),
        lock_folder(tmp_path),
    ):
        pass
    with lock_folder(tmp_path):  # free again, although the file stays
        assert (tmp_path / ".lock").exists()

"""State: what was saved comes back to the last bit, and a torn file is never taken for one."""

import random
import resource
from pathlib import Path
from typing import Any

import pytest
import torch

from hubnmt.errors import ModelFolderError
from tests.runs import MakeRun
from training.run.checkpoint import STATE_FILE, Progress, load_state, random_states, save_state
from training.run.trainer import Trainer


def save(current: Trainer, **progress: Any) -> None:
    generators = [random_states()]
    save_state(current.folder, current.stepper, Progress(**progress), generators=generators)


def load(current: Trainer) -> Progress:
    return load_state(current.folder, current.stepper)


@pytest.mark.gpu
def test_the_random_state_of_the_gpu_comes_back(make_run: MakeRun) -> None:
    save(current := make_run())
    expected = torch.rand(5, device="cuda")
    torch.cuda.manual_seed(4)
    load(current)
    assert torch.equal(torch.rand(5, device="cuda"), expected)


def test_a_disk_that_is_really_full_leaves_the_old_state_whole(make_run: MakeRun) -> None:
    current, large = make_run(), make_run("model.d_model=96")
    save(current, step=5)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    try:
        with pytest.raises(ModelFolderError, match=r"00000009\.pt: cannot be saved \(File too lar"):
            save(current, step=9, snapshots={9: {"w": torch.randn(200_000)}})
        with pytest.raises(ModelFolderError, match=r"state\.pt: cannot be saved \(File too large"):
            save(large, step=9)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [*current.folder.glob("**/*.draft")] == []
    assert load(current).step == 5


@pytest.mark.parametrize("name", [STATE_FILE, "snapshots/00000007.pt"])
def test_a_state_with_changed_bytes_is_refused(name: str, make_run: MakeRun) -> None:
    """torch would take other weights without a word."""
    save(current := make_run(), snapshots={7: {"w": torch.randn(2, 3)}})
    content = bytearray((current.folder / name).read_bytes())
    rng = random.Random(1)
    for place in rng.sample(range(len(content)), min(400, len(content) // 4)):
        content[place] ^= rng.randrange(1, 256)
    (current.folder / name).write_bytes(content)
    with pytest.raises(ModelFolderError, match=r"state\.pt: damaged, or not a state of") as error:
        load(current)
    assert "\n" not in str(error.value)


class Attack:
    """Runs code when it is unpickled."""

    def __init__(self, victim: Path) -> None:
        self.victim = victim

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Path.touch, (self.victim,)


def test_a_state_cannot_run_code(make_run: MakeRun, tmp_path: Path) -> None:
    torch.save({"model": Attack(tmp_path / "victim")}, tmp_path / STATE_FILE)
    with pytest.raises(ModelFolderError, match=r"state\.pt: damaged, or not a state"):
        load(make_run())
    assert not (tmp_path / "victim").exists()

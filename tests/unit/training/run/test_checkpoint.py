"""State: what was saved comes back to the last bit, and a torn file is never taken for one."""

import pickle
import random
import resource
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from hubnmt.errors import ModelFolderError
from training.run.checkpoint import (
    STATE_FILE,
    Progress,
    load_state,
    random_states,
    save_state,
)


def make_stepper(seed: int = 1, *, width: int = 5) -> Any:
    torch.manual_seed(seed)
    model: Any = nn.Sequential(nn.Linear(3, width), nn.Linear(width, 4))
    return SimpleNamespace(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=0.1),
    )


def save(folder: Path, stepper: Any, progress: Progress | None = None) -> None:
    save_state(folder, stepper, progress or Progress(), generators=[random_states()])


def load(folder: Path, stepper: Any) -> Progress:
    return load_state(folder, stepper)


@pytest.mark.gpu
def test_the_random_state_of_the_gpu_comes_back(tmp_path: Path) -> None:
    save(tmp_path, make_stepper())
    expected = torch.rand(5, device="cuda")
    torch.cuda.manual_seed(4)
    load(tmp_path, make_stepper())
    assert torch.equal(torch.rand(5, device="cuda"), expected)


@pytest.fixture
def small_disk() -> Iterator[int]:
    """Let the system refuse files of more than so many bytes, as a full disk refuses them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    yield 100_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_is_really_full_leaves_the_old_state_whole(
    tmp_path: Path, small_disk: int
) -> None:
    stepper = make_stepper()
    save(tmp_path, stepper, Progress(step=5))
    big = Progress(step=9, snapshots={9: {"w": torch.randn(small_disk)}})
    with pytest.raises(ModelFolderError, match=r"00000009\.pt: cannot be saved \(File too large\)"):
        save(tmp_path, stepper, big)
    assert load(tmp_path, stepper).step == 5
    assert [*tmp_path.glob("**/*.draft")] == []
    stepper = make_stepper(width=20_000)
    with pytest.raises(ModelFolderError, match=r"state\.pt: cannot be saved \(File too large\)"):
        save(tmp_path, stepper, Progress(step=9))
    assert load(tmp_path, make_stepper()).step == 5


@pytest.mark.parametrize("name", [STATE_FILE, "snapshots/00000007.pt"])
def test_a_state_with_changed_bytes_is_refused(name: str, tmp_path: Path) -> None:
    """torch would take other weights without a word."""
    save(tmp_path, make_stepper(width=2000), Progress(snapshots={7: {"w": torch.randn(2, 3)}}))
    content = bytearray((tmp_path / name).read_bytes())
    rng = random.Random(1)
    for place in rng.sample(range(len(content)), min(400, len(content) // 4)):
        content[place] ^= rng.randrange(1, 256)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelFolderError, match=r"state\.pt: damaged, or not a state of") as error:
        load(tmp_path, make_stepper(width=2000))
    assert "\n" not in str(error.value)


class Attack:
    """Runs code when it is unpickled."""

    def __init__(self, victim: Path) -> None:
        self.victim = victim

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Path.touch, (self.victim,)


@pytest.mark.parametrize("writer", ["torch", "pickle"])
def test_a_state_cannot_run_code(writer: str, tmp_path: Path) -> None:
    attack = {"model": Attack(tmp_path / "victim")}
    with (tmp_path / STATE_FILE).open("wb") as file:
        if writer == "torch":
            torch.save(attack, file)
        else:
            pickle.dump(attack, file, protocol=2)
    with pytest.raises(ModelFolderError, match=r"state\.pt: damaged, or not a state"):
        load(tmp_path, make_stepper())
    assert not (tmp_path / "victim").exists()

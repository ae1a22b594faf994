"""State: what was saved comes back to the last bit, and a torn file is never taken for one."""

import dataclasses
import io
import pickle
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hubnmt.errors import ModelFolderError
from training import state
from training.state import STATE_FILE, Progress, average, load_state, save_state

Parts = tuple[nn.Module, torch.optim.Optimizer]


def make_parts(seed: int = 1, *, width: int = 5) -> Parts:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, width), nn.Linear(width, 4))
    return model, torch.optim.AdamW(model.parameters(), lr=0.1)


def take_step(parts: Parts) -> None:
    """One optimizer step on random input."""
    model, optimizer = parts
    model(torch.randn(7, 3)).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def weights(parts: Parts) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in parts[0].parameters()]


def save(folder: Path, parts: Parts, progress: Progress | None = None) -> None:
    save_state(folder, model=parts[0], optimizer=parts[1], progress=progress or Progress())


def load(folder: Path, parts: Parts) -> Progress:
    return load_state(folder, model=parts[0], optimizer=parts[1])


def make_progress() -> Progress:
    """Every field differs from its default and from the others."""
    snapshots = [{"w": torch.randn(2, 3)}, {"w": torch.randn(2, 3)}]
    return Progress(
        step=11,
        epoch=2,
        batch=3,
        seconds=4.5,
        best_bleu=33.25,
        best_step=10,
        n_worse=1,
        snapshots=snapshots,
    )


# --- round trip ----------------------------------------------------------------------------------


def test_progress_comes_back_field_by_field(tmp_path: Path) -> None:
    progress = make_progress()
    save(tmp_path, make_parts(), progress)
    loaded = load(tmp_path, make_parts(2))
    for field in dataclasses.fields(Progress):
        old, new = getattr(progress, field.name), getattr(loaded, field.name)
        torch.testing.assert_close(new, old, rtol=0, atol=0)
        assert field.name == "snapshots" or old != field.default


def test_a_restored_pair_goes_on_like_the_one_that_was_saved(tmp_path: Path) -> None:
    parts, others = make_parts(), make_parts(2)
    for _ in range(3):
        take_step(parts)
    save(tmp_path, parts)
    take_step(parts)
    take_step(others)  # the state must replace what is there
    load(tmp_path, others)
    take_step(others)
    assert all(map(torch.equal, weights(parts), weights(others)))


def test_without_the_optimizers_moments_it_would_not(tmp_path: Path) -> None:
    parts, others = make_parts(), make_parts(2)
    for _ in range(3):
        take_step(parts)
    save(tmp_path, parts)
    take_step(parts)
    load(tmp_path, others)
    fresh = others[0], torch.optim.AdamW(others[0].parameters(), lr=0.1)
    take_step(fresh)
    assert not all(map(torch.equal, weights(parts), weights(fresh)))


def test_the_random_state_of_torch_comes_back(tmp_path: Path) -> None:
    parts = make_parts()
    torch.manual_seed(3)
    save(tmp_path, parts)
    expected = torch.rand(5)
    torch.manual_seed(4)
    load(tmp_path, make_parts())
    assert torch.equal(torch.rand(5), expected)


def test_the_random_state_of_python_comes_back(tmp_path: Path) -> None:
    parts = make_parts()
    random.seed(3)
    save(tmp_path, parts)
    expected = random.random()
    random.seed(4)
    load(tmp_path, make_parts())
    assert random.random() == expected


@pytest.mark.gpu
def test_the_random_state_of_the_gpu_comes_back(tmp_path: Path) -> None:
    save(tmp_path, make_parts())
    expected = torch.rand(5, device="cuda")
    torch.cuda.manual_seed(4)
    load(tmp_path, make_parts())
    assert torch.equal(torch.rand(5, device="cuda"), expected)


def test_a_saved_state_does_not_follow_later_steps(tmp_path: Path) -> None:
    parts = make_parts()
    before = weights(parts)
    save(tmp_path, parts)
    take_step(parts)
    load(tmp_path, parts)
    assert all(map(torch.equal, weights(parts), before))


# --- saving is all or nothing --------------------------------------------------------------------


class PullThePlugError(OSError):
    pass


@pytest.mark.parametrize("moment", ["writing", "flushing", "moving"])
def test_a_save_that_breaks_off_leaves_the_old_state_whole(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = make_parts()
    save(tmp_path, parts, Progress(step=5))
    before = (tmp_path / STATE_FILE).read_bytes()

    def half_save(_state: Any, file: io.BufferedWriter) -> None:
        file.write(before[: len(before) // 2])
        raise PullThePlugError

    def break_off(*_: Any, **__: Any) -> None:
        raise PullThePlugError

    broken = {
        "writing": (state.torch, "save", half_save),
        "flushing": (state.os, "fsync", break_off),
        "moving": (Path, "replace", break_off),
    }
    with monkeypatch.context() as patch:
        patch.setattr(*broken[moment])
        with pytest.raises(PullThePlugError):
            save(tmp_path, parts, Progress(step=9))
    assert (tmp_path / STATE_FILE).read_bytes() == before
    assert load(tmp_path, parts).step == 5
    save(tmp_path, parts, Progress(step=9))  # what is left lying about does no harm
    assert load(tmp_path, parts).step == 9


def test_a_new_state_replaces_the_old_one_and_leaves_nothing_else(tmp_path: Path) -> None:
    parts = make_parts()
    for step in (5, 9):
        save(tmp_path, parts, Progress(step=step))
    assert load(tmp_path, parts).step == 9
    assert [path.name for path in tmp_path.iterdir()] == [STATE_FILE]


# --- what is refused -----------------------------------------------------------------------------


def test_a_missing_state_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match=r"state\.pt: no such file; this run cannot be"):
        load(tmp_path, make_parts())


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.7, 0.99, 0.999])
def test_a_torn_state_is_refused(share: float, tmp_path: Path) -> None:
    save(tmp_path, make_parts(), make_progress())
    path = tmp_path / STATE_FILE
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ModelFolderError, match=r"state\.pt: not a whole state of") as error:
        load(tmp_path, make_parts())
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "content", [b"no state at all", b"PK\x03\x04" + b"\0" * 99, bytes(range(256)) * 9, b"\0"]
)
def test_a_foreign_file_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / STATE_FILE).write_bytes(content)
    with pytest.raises(ModelFolderError, match=r"state\.pt: not a whole state"):
        load(tmp_path, make_parts())


@pytest.mark.parametrize("key", ["model", "optimizer", "progress", "torch_rng"])
@pytest.mark.parametrize("damage", ["missing", "foreign"])
def test_a_state_without_one_of_its_parts_is_refused(key: str, damage: str, tmp_path: Path) -> None:
    save(tmp_path, make_parts())
    values = torch.load(tmp_path / STATE_FILE, weights_only=True)
    del values[key]
    if damage == "foreign":
        values[key] = {"surprise": 1}
    torch.save(values, tmp_path / STATE_FILE)
    with pytest.raises(ModelFolderError, match=r"state\.pt: not a whole state"):
        load(tmp_path, make_parts())


def test_a_state_that_is_no_table_is_refused(tmp_path: Path) -> None:
    torch.save([1, 2, 3], tmp_path / STATE_FILE)
    with pytest.raises(ModelFolderError, match=r"state\.pt: not a whole state"):
        load(tmp_path, make_parts())


def test_the_state_of_another_shape_is_refused(tmp_path: Path) -> None:
    save(tmp_path, make_parts(width=6))
    with pytest.raises(ModelFolderError, match=r"state\.pt: not a whole state"):
        load(tmp_path, make_parts())


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
    with pytest.raises(ModelFolderError, match=r"state\.pt: not a whole state"):
        load(tmp_path, make_parts())
    assert not (tmp_path / "victim").exists()


# --- averaging -----------------------------------------------------------------------------------


def test_the_average_is_the_mean_of_each_element() -> None:
    snapshots = [{"a": torch.randn(2, 3), "b": torch.randn(4)} for _ in range(3)]
    for name, mean in average(snapshots).items():
        by_hand = (snapshots[0][name] + snapshots[1][name] + snapshots[2][name]) / 3
        torch.testing.assert_close(mean, by_hand)


def test_the_average_of_one_is_itself() -> None:
    snapshot = {"a": torch.randn(2, 3)}
    assert torch.equal(average([snapshot])["a"], snapshot["a"])


def test_averaging_leaves_the_snapshots_alone() -> None:
    snapshots = [{"a": torch.zeros(2)}, {"a": torch.ones(2)}]
    average(snapshots)["a"].add_(9)
    assert [snapshot["a"].tolist() for snapshot in snapshots] == [[0, 0], [1, 1]]

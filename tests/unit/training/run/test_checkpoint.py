"""State: what was saved comes back to the last bit, and a torn file is never taken for one."""

import dataclasses
import errno
import io
import pickle
import random
import resource
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hubnmt.errors import ModelFolderError
from training.optim.averaging import MovingAverage
from training.run import checkpoint
from training.run.checkpoint import (
    STATE_FILE,
    Parts,
    Progress,
    load_state,
    random_states,
    save_state,
)


def make_parts(seed: int = 1, *, width: int = 5, follow: bool = False) -> Parts:
    torch.manual_seed(seed)
    model: Any = nn.Sequential(nn.Linear(3, width), nn.Linear(width, 4))
    stepper: Any = SimpleNamespace(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=0.1),
        scaler=torch.amp.GradScaler("cpu"),
    )
    return Parts(stepper=stepper, moving_average=MovingAverage(model, 0.5) if follow else None)


def take_step(parts: Parts) -> None:
    """One optimizer step on random input."""
    stepper = parts.stepper
    stepper.scaler.scale(stepper.model(torch.randn(7, 3)).square().sum()).backward()
    stepper.scaler.step(stepper.optimizer)
    stepper.scaler.update()
    stepper.optimizer.zero_grad()
    if parts.moving_average is not None:
        parts.moving_average.update(1)


def weights(parts: Parts) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in parts.stepper.model.parameters()]


def save(folder: Path, parts: Parts, progress: Progress | None = None) -> None:
    save_state(folder, parts, progress or Progress(), generators=[random_states()])


def load(folder: Path, parts: Parts) -> Progress:
    return load_state(folder, parts)


def make_progress() -> Progress:
    """Every field differs from its default and from the others."""
    return Progress(
        step=11,
        epoch=2,
        batch=3,
        seconds=4.5,
        best_bleu=33.25,
        best_step=10,
        n_worse=1,
        n_skipped=6,
        snapshots={7: {"w": torch.randn(2, 3)}, 11: {"w": torch.randn(2, 3)}},
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
    others.stepper.optimizer = torch.optim.AdamW(others.stepper.model.parameters(), lr=0.1)
    take_step(others)
    assert not all(map(torch.equal, weights(parts), weights(others)))


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


def test_the_moving_average_comes_back(tmp_path: Path) -> None:
    parts, others = make_parts(follow=True), make_parts(2, follow=True)
    for _ in range(3):
        take_step(parts)
    save(tmp_path, parts)
    load(tmp_path, others)
    assert parts.moving_average is not None
    assert others.moving_average is not None
    mine, theirs = parts.moving_average.weights, others.moving_average.weights
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    assert not all(map(torch.equal, mine.values(), weights(parts)))


def test_the_scale_of_float16_comes_back(tmp_path: Path) -> None:
    parts, others = make_parts(), make_parts(2)
    take_step(parts)
    parts.stepper.scaler.update(new_scale=17.0)
    save(tmp_path, parts)
    load(tmp_path, others)
    take_step(others)
    assert others.stepper.scaler.get_scale() == 17.0


def test_each_process_gets_its_own_generators_back(tmp_path: Path) -> None:
    generators, expected = [], []
    for seed in (3, 4):
        torch.manual_seed(seed)
        random.seed(seed)
        generators.append(random_states())
        expected.append((torch.rand(3).tolist(), random.random()))
    save_state(tmp_path, make_parts(), Progress(), generators=generators)
    for rank in (1, 0):
        load_state(tmp_path, make_parts(), rank=rank)
        assert (torch.rand(3).tolist(), random.random()) == expected[rank]


def test_a_process_more_than_before_keeps_its_own_generators(tmp_path: Path) -> None:
    save(tmp_path, make_parts())
    parts = make_parts()
    torch.manual_seed(8)
    load_state(tmp_path, parts, rank=1)
    drawn = torch.rand(3)
    torch.manual_seed(8)
    assert torch.equal(torch.rand(3), drawn)


# --- snapshots -----------------------------------------------------------------------------------


def test_snapshots_are_written_once_and_forgotten_with_the_state(tmp_path: Path) -> None:
    progress = Progress(step=5, snapshots={5: {"w": torch.ones(2)}})
    save(tmp_path, make_parts(), progress)
    first = tmp_path / "snapshots" / "00000005.pt"
    before = first.stat().st_mtime_ns
    progress.step, progress.snapshots[9] = 9, {"w": torch.zeros(2)}
    save(tmp_path, make_parts(), progress)
    assert first.stat().st_mtime_ns == before
    assert [*load(tmp_path, make_parts()).snapshots] == [5, 9]
    del progress.snapshots[5]
    save(tmp_path, make_parts(), progress)
    assert [path.name for path in (tmp_path / "snapshots").iterdir()] == ["00000009.pt"]


def test_a_snapshot_that_a_killed_sitting_left_is_written_anew(tmp_path: Path) -> None:
    for value in (1.0, 2.0):
        progress = Progress(step=5, snapshots={5: {"w": torch.tensor(value)}})
        save(tmp_path, make_parts(), progress)
    assert load(tmp_path, make_parts()).snapshots[5]["w"] == 2.0


@pytest.mark.parametrize("damage", ["torn", "missing"])
def test_a_state_without_one_of_its_snapshots_is_refused(damage: str, tmp_path: Path) -> None:
    save(tmp_path, make_parts(), make_progress())
    path = tmp_path / "snapshots" / "00000007.pt"
    if damage == "torn":
        path.write_bytes(path.read_bytes()[:-200])
    else:
        path.unlink()
    with pytest.raises(ModelFolderError, match=r"state\.pt: damaged, or not a state"):
        load(tmp_path, make_parts())


# --- earlier formats -----------------------------------------------------------------------------


def write_version_1(folder: Path, parts: Parts, *, as_text: bool) -> None:
    """Write the state as it was before it had a number."""
    values = {
        "model": parts.stepper.model.state_dict(),
        "optimizer": parts.stepper.optimizer.state_dict(),
        "progress": {
            "step": 500,
            "epoch": 2,
            "batch": 3,
            "seconds": 4.5,
            "best_bleu": 33.25,
            "best_step": 250,
            "n_worse": 1,
            "snapshots": [{"w": torch.tensor(1.0)}, {"w": torch.tensor(2.0)}],
        },
        "torch_rng": torch.get_rng_state(),
        "cuda_rng": [],
        "python_rng": repr(random.getstate()) if as_text else list(random.getstate()),
    }
    torch.save(values, folder / STATE_FILE)


@pytest.mark.parametrize("as_text", [False, True])
def test_the_state_of_the_first_format_goes_on(as_text: bool, tmp_path: Path) -> None:
    parts, others = make_parts(), make_parts(2)
    take_step(parts)
    write_version_1(tmp_path, parts, as_text=as_text)
    expected, drawn = torch.rand(3), random.random()
    progress = load(tmp_path, others)
    assert torch.equal(torch.rand(3), expected)
    assert random.random() == drawn
    assert all(map(torch.equal, weights(parts), weights(others)))
    assert (progress.step, progress.n_worse, progress.n_skipped) == (500, 1, 0)
    assert [float(each["w"]) for each in progress.snapshots.values()] == [1.0, 2.0]
    save(tmp_path, others, progress)  # and from now on it is one of today's
    again = load(tmp_path, make_parts())
    assert [float(each["w"]) for each in again.snapshots.values()] == [1.0, 2.0]


def test_a_state_of_the_future_is_refused_with_its_number(tmp_path: Path) -> None:
    save(tmp_path, make_parts())
    values = torch.load(tmp_path / STATE_FILE, weights_only=True)
    torch.save(values | {"format_version": 3}, tmp_path / STATE_FILE)
    with pytest.raises(
        ModelFolderError, match=r"state\.pt: format_version 3 is not 2; resume with"
    ):
        load(tmp_path, make_parts())


# --- saving is all or nothing --------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["writing", "flushing", "moving"])
def test_a_save_that_breaks_off_leaves_the_old_state_whole(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = make_parts()
    save(tmp_path, parts, Progress(step=5))
    before = (tmp_path / STATE_FILE).read_bytes()
    full = OSError(errno.ENOSPC, "No space left on device")

    def half_save(_state: Any, file: io.BufferedWriter) -> None:
        file.write(before[: len(before) // 2])
        raise full

    def break_off(*_: Any, **__: Any) -> None:
        raise full

    broken = {
        "writing": (checkpoint.torch, "save", half_save),
        "flushing": (checkpoint.os, "fsync", break_off),
        "moving": (Path, "replace", break_off),
    }
    with monkeypatch.context() as patch:
        patch.setattr(*broken[moment])
        with pytest.raises(ModelFolderError, match=r"\(No space left on device\)") as caught:
            save(tmp_path, parts, Progress(step=9))
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == [
        STATE_FILE
    ]  # the rest would fill the disk
    if moment != "flushing":  # the folder is flushed after the new state stands
        assert (tmp_path / STATE_FILE).read_bytes() == before
        assert load(tmp_path, parts).step == 5
    save(tmp_path, parts, Progress(step=9))
    assert load(tmp_path, parts).step == 9


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
    parts = make_parts()
    save(tmp_path, parts, Progress(step=5))
    big = Progress(step=9, snapshots={9: {"w": torch.randn(small_disk)}})
    with pytest.raises(ModelFolderError, match=r"00000009\.pt: cannot be saved \(File too large\)"):
        save(tmp_path, parts, big)
    assert load(tmp_path, parts).step == 5
    assert [*tmp_path.glob("**/*.draft")] == []
    parts = make_parts(width=20_000)
    with pytest.raises(ModelFolderError, match=r"state\.pt: cannot be saved \(File too large\)"):
        save(tmp_path, parts, Progress(step=9))
    assert load(tmp_path, make_parts()).step == 5


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
    with pytest.raises(ModelFolderError, match=r"state\.pt: damaged, or not a state of") as error:
        load(tmp_path, make_parts())
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", [STATE_FILE, "snapshots/00000007.pt"])
@pytest.mark.parametrize("seed", range(4))
def test_a_state_with_changed_bytes_is_refused(name: str, seed: int, tmp_path: Path) -> None:
    """torch would take other weights without a word."""
    save(tmp_path, make_parts(width=2000), make_progress())
    content = bytearray((tmp_path / name).read_bytes())
    rng = random.Random(seed)
    for place in rng.sample(range(len(content)), min(400, len(content) // 4)):
        content[place] ^= rng.randrange(1, 256)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelFolderError, match=r"state\.pt: damaged, or not a state of") as error:
        load(tmp_path, make_parts(width=2000))
    assert "\n" not in str(error.value)


def test_every_byte_of_the_weights_counts(tmp_path: Path) -> None:
    parts = make_parts()
    save(tmp_path, parts)
    content = (tmp_path / STATE_FILE).read_bytes()
    weight = weights(parts)[0].numpy().tobytes()
    place = content.index(weight)
    for n in range(len(weight)):
        changed = bytearray(content)
        changed[place + n] ^= 1
        (tmp_path / STATE_FILE).write_bytes(changed)
        with pytest.raises(ModelFolderError, match="has changed since it was saved"):
            load(tmp_path, make_parts())


def test_a_state_of_another_weight_decay_is_refused(tmp_path: Path) -> None:
    """It decayed norms, biases and embeddings, too: its run would go on as another."""
    save(tmp_path, make_parts())
    parts = make_parts()
    groups = [{"params": [each]} for each in parts.stepper.model.parameters()]
    parts.stepper.optimizer = torch.optim.AdamW(groups)
    with pytest.raises(ModelFolderError, match="applies weight decay to norms, biases"):
        load(tmp_path, parts)


@pytest.mark.parametrize(
    "content", [b"no state", b"PK\x03\x04" + b"\0" * 99, bytes(range(256)) * 9, b"\0", [1, 2]]
)
def test_a_foreign_file_is_refused(content: bytes | list[int], tmp_path: Path) -> None:
    if isinstance(content, bytes):
        (tmp_path / STATE_FILE).write_bytes(content)
    else:
        torch.save(content, tmp_path / STATE_FILE)  # whole, but no table
    with pytest.raises(ModelFolderError, match=r"state\.pt: damaged, or not a state"):
        load(tmp_path, make_parts())


@pytest.mark.parametrize("key", ["model", "optimizer", "progress", "generators"])
@pytest.mark.parametrize("damage", ["missing", "foreign"])
def test_a_state_without_one_of_its_parts_is_refused(key: str, damage: str, tmp_path: Path) -> None:
    save(tmp_path, make_parts())
    values = torch.load(tmp_path / STATE_FILE, weights_only=True)
    del values[key]
    if damage == "foreign":
        values[key] = {"surprise": 1} if key != "generators" else [{"surprise": 1}]
    torch.save(values, tmp_path / STATE_FILE)
    with pytest.raises(ModelFolderError, match=r"state\.pt: damaged, or not a state"):
        load(tmp_path, make_parts())


def test_the_state_of_another_shape_is_refused(tmp_path: Path) -> None:
    save(tmp_path, make_parts(width=6))
    with pytest.raises(ModelFolderError, match=r"state\.pt: damaged, or not a state"):
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
    with pytest.raises(ModelFolderError, match=r"state\.pt: damaged, or not a state"):
        load(tmp_path, make_parts())
    assert not (tmp_path / "victim").exists()

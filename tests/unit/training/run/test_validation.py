"""A validation: the weights that the recipe names are judged, and the best of them are kept."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from hubnmt import Translator
from hubnmt.errors import ModelFolderError
from tests.runs import differing, read_metrics, score_as
from training.optim.averaging import average
from training.run import trainer, validation
from training.run.trainer import Run

RunFarm = Callable[..., Run]


def test_best_is_the_model_of_the_best_validation(
    run_farm: RunFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    score_as([1, 3, 2, 2.5], monkeypatch)
    settings = ["run.eval_every=1", "run.average_last=4", "run.max_steps=4"]
    done = run_farm(tmp_path, *settings)
    snapshots = [*done.progress.snapshots.values()]
    for name, count in (("best", 2), ("last", 4)):
        stored = Translator.from_pretrained(done.folder / name)
        assert differing(stored, average(snapshots[:count])) == []


def test_the_moving_average_is_judged_if_the_recipe_says_so(
    run_farm: RunFarm, farm_run: Run, tmp_path: Path
) -> None:
    done = run_farm(tmp_path, "run.judged=ema", "run.ema_decay=0.5")
    assert differing(done, farm_run) == []  # training itself is the same
    assert done.parts.moving_average is not None
    followed = done.parts.moving_average.weights
    last = Translator.from_pretrained(done.folder / "last")
    assert differing(last, followed) == []
    assert "src_embedding.weight" in differing(done, followed)
    assert done.progress.snapshots == {}


class SafetensorsDiskError(Exception):
    """What safetensors raises is an Exception of its own, with the system's error in its text."""


def test_a_full_disk_ends_the_run_with_one_line(
    run_farm: RunFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_farm(tmp_path, "run.max_steps=4")
    folder = tmp_path / "farm"
    before = {path: path.read_bytes() for path in folder.glob("*/*.safetensors")}
    state = (folder / "state.pt").read_bytes()
    assert len(before) == 2

    def fail(*_: Any, **__: Any) -> None:
        raise SafetensorsDiskError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(validation, "save_model", fail)
    with pytest.raises(
        ModelFolderError, match=r"No space left on device.*free disk space"
    ) as caught:
        run_farm(tmp_path, "run.max_steps=8", resume=True)
    assert "\n" not in str(caught.value)
    assert {path: path.read_bytes() for path in before} == before
    assert (folder / "state.pt").read_bytes() == state


class PowerCutError(BaseException):
    """Nothing handles it; the process is gone."""


def cut_before_the_state_of(step: int, patch: pytest.MonkeyPatch) -> None:
    save = trainer.save_state

    def cut(folder: Path, parts: Any, progress: Any, **options: Any) -> None:
        if progress.step == step:
            raise PowerCutError
        save(folder, parts, progress, **options)

    patch.setattr(trainer, "save_state", cut)


def weights_of(folder: Path) -> bytes:
    return (folder / "best" / "model.safetensors").read_bytes()


def test_a_power_cut_between_best_and_the_state_costs_nothing(
    run_farm: RunFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state is of step 4, `best/` of step 8, and the run ends before it is there again."""
    folder = tmp_path / "farm"
    with monkeypatch.context() as patch:
        score_as([5, 9], patch)
        cut_before_the_state_of(8, patch)
        with pytest.raises(PowerCutError):
            run_farm(tmp_path, "run.max_steps=12")
    assert torch.load(folder / "state.pt", weights_only=True)["progress"]["step"] == 4
    best = weights_of(folder)
    score_as([7], monkeypatch)
    resumed = run_farm(tmp_path, "run.max_steps=6", resume=True)
    assert weights_of(folder) == best
    assert resumed.best == (8, 9)
    card = (folder / "best" / "README.md").read_text(encoding="utf-8")
    assert "steps until the best weights: 8" in card
    assert "BLEU 9.00" in card
    assert [record["step"] for record in read_metrics(folder, "valid")] == [4, 6]
    assert (resumed.progress.best_step, resumed.progress.n_worse) == (4, 0)

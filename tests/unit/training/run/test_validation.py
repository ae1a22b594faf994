"""A validation: the weights that the recipe names are judged, and the best of them are kept."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from hubnmt import Translator
from hubnmt.checkpoint.metadata import check_metadata
from hubnmt.errors import ModelFolderError
from tests.runs import differing, read_metrics, read_samples, score_as, stop_at
from training.optim.averaging import average
from training.run import trainer, validation
from training.run.trainer import Run

RunFarm = Callable[..., Run]


def test_best_and_last_can_translate(farm_run: Run) -> None:
    for name in ("best", "last"):
        translator = Translator.from_pretrained(farm_run.folder / name)
        assert translator.decoding.beam_size == 2
        assert (translator.config.src_lang, translator.config.tgt_lang) == ("de", "en")
        assert isinstance(translator.translate("Heute wartet die Kuh.").text, str)


def test_last_is_the_mean_of_the_last_snapshots(farm_run: Run) -> None:
    assert [*farm_run.progress.snapshots] == [4, 8]
    snapshots = [*farm_run.progress.snapshots.values()]
    assert differing(farm_run, snapshots[-1]) == []
    last = Translator.from_pretrained(farm_run.folder / "last")
    assert differing(last, average(snapshots)) == []
    assert "src_embedding.weight" in differing(last, snapshots[-1])


def test_samples_follow_the_same_sentences(farm_run: Run) -> None:
    tables = read_samples(farm_run.folder)
    assert len(tables) == 2
    assert tables[0] == tables[1]
    valid = {(f"| {src}", tgt) for src, tgt in farm_run.corpus.valid}
    assert len(set(tables[0])) == 3
    assert set(tables[0]) <= valid


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


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        SafetensorsDiskError("I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_full_disk_ends_the_run_with_one_line(
    error: Exception, run_farm: RunFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_farm(tmp_path, "run.max_steps=4")
    folder = tmp_path / "farm"
    before = {path: path.read_bytes() for path in folder.glob("*/*.safetensors")}
    state = (folder / "state.pt").read_bytes()
    assert len(before) == 2

    def fail(*_: Any, **__: Any) -> None:
        raise error

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


@pytest.mark.parametrize("max_steps", [6, 12])
def test_a_power_cut_between_best_and_the_state_costs_nothing(
    max_steps: int, run_farm: RunFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state is of step 4, `best/` of step 8; the run may even end before it is there again."""
    folder = tmp_path / "farm"
    with monkeypatch.context() as patch:
        score_as([5, 9], patch)
        cut_before_the_state_of(8, patch)
        with pytest.raises(PowerCutError):
            run_farm(tmp_path, "run.max_steps=12")
    assert torch.load(folder / "state.pt", weights_only=True)["progress"]["step"] == 4
    best = weights_of(folder)
    score_as([7] if max_steps == 6 else [9, 6], monkeypatch)
    resumed = run_farm(tmp_path, f"run.max_steps={max_steps}", resume=True)
    assert weights_of(folder) == best
    assert resumed.best == (8, 9)
    card = (folder / "best" / "README.md").read_text(encoding="utf-8")
    assert "steps until the best weights: 8" in card
    assert "BLEU 9.00" in card
    steps = [record["step"] for record in read_metrics(folder, "valid")]
    assert steps == ([4, 6] if max_steps == 6 else [4, 8, 12])
    patience = (resumed.progress.best_step, resumed.progress.n_worse)
    assert patience == ((4, 0) if max_steps == 6 else (8, 1))


def test_a_validation_leaves_the_random_numbers_alone(run_farm: RunFarm, tmp_path: Path) -> None:
    often = run_farm(tmp_path / "often", "run.eval_every=1")
    never = run_farm(tmp_path / "never", "run.eval_every=100")
    assert differing(often, never) == []
    assert torch.isfinite(often.model.output_proj.weight).all()


def test_the_card_of_the_best_model_is_whole_before_the_end(
    run_farm: RunFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_at(6, monkeypatch)
    run_farm(tmp_path)
    for name in ("best", "last"):
        card = (tmp_path / "farm" / name / "README.md").read_text(encoding="utf-8")
        check_metadata(card)
        assert f"steps until the {name} weights: 4" in card

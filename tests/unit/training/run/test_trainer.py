"""The loop: when it ends, and that stopping and going on leaves no trace."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from hubnmt import Translator
from tests.runs import differing, read_metrics, read_samples, score_as, stop_at
from training.run.trainer import Run, seed_everything

RunFarm = Callable[..., Run]


def test_metrics_hold_every_logged_step_and_every_validation(farm_run: Run) -> None:
    records = read_metrics(farm_run.folder, "train")
    assert [record["step"] for record in records] == list(range(1, 9))
    keys = {"loss", "lr", "grad_norm", "tokens_per_s", "epoch", "time"}
    assert all(keys <= set(record) for record in records)
    validations = read_metrics(farm_run.folder, "valid")
    assert [record["step"] for record in validations] == [4, 8]
    for record in validations:
        assert record["dev_loss"] > 0
        assert "tok:13a" in record["bleu_signature"]
        assert "nc:6" in record["chrf_signature"]


def test_a_run_learns(run_farm: RunFarm, tmp_path: Path) -> None:
    done = run_farm(tmp_path, "run.max_steps=40", "run.eval_every=40", "run.log_every=10")
    losses = [record["loss"] for record in read_metrics(done.folder, "train")]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.8 * losses[0]


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(
    farm_run: Run, run_farm: RunFarm, tmp_path: Path
) -> None:
    torch.manual_seed(99)  # what happened before the run must not matter
    same = run_farm(tmp_path / "same")
    other = run_farm(tmp_path / "other", "run.seed=6")
    assert differing(same, farm_run) == []
    assert "src_embedding.weight" in differing(other, farm_run)


def test_early_stopping_counts_validations_without_a_better_score(
    run_farm: RunFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    score_as([1, 3, 2, 4, 4, 3.9, 5, 6], monkeypatch)
    done = run_farm(tmp_path, "run.eval_every=1", "run.patience=2")
    assert done.progress.step == 6
    assert (done.progress.best_bleu, done.progress.best_step) == (4, 4)


def test_the_clock_ends_a_run(run_farm: RunFarm, tmp_path: Path) -> None:
    done = run_farm(tmp_path, "run.max_minutes=1e-9")
    assert done.progress.step == 1


@pytest.mark.parametrize("step", [1, 3, 4, 6])
def test_a_stopped_run_goes_on_as_if_it_had_never_stopped(
    step: int, farm_run: Run, run_farm: RunFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        stop_at(step, patch)
        stopped = run_farm(tmp_path)
    assert stopped.progress.step == step
    seed_everything(99)  # a new process starts from another random state
    resumed = run_farm(tmp_path, resume=True)
    assert differing(resumed, farm_run) == []
    for name in ("best", "last"):
        weights = [(run.folder / name / "model.safetensors") for run in (farm_run, resumed)]
        assert weights[0].read_bytes() == weights[1].read_bytes()
    torch.testing.assert_close(
        resumed.stepper.optimizer.state_dict(),
        farm_run.stepper.optimizer.state_dict(),
        rtol=0,
        atol=0,
    )
    progress = [dataclasses.asdict(run.progress) for run in (farm_run, resumed)]
    for values in progress:
        del values["seconds"], values["snapshots"]
    assert progress[0] == progress[1]
    curves = [
        [(record["step"], record["loss"]) for record in read_metrics(run.folder, "train")]
        for run in (farm_run, resumed)
    ]
    assert curves[0] == curves[1]
    assert read_samples(resumed.folder) == read_samples(farm_run.folder)


def test_a_longer_run_starts_from_the_end_of_a_shorter_one(
    farm_run: Run, run_farm: RunFarm, tmp_path: Path
) -> None:
    run_farm(tmp_path, "run.max_steps=4")
    resumed = run_farm(tmp_path, "run.max_steps=8", resume=True)  # this may change
    assert differing(resumed, farm_run) == []


def test_resuming_a_finished_run_changes_nothing(
    run_farm: RunFarm, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    done = run_farm(tmp_path)
    before = [path.read_bytes() for path in sorted(done.folder.glob("*/model.safetensors"))]
    with caplog.at_level("INFO"):
        again = run_farm(tmp_path, resume=True)
    assert again.progress.step == 8
    assert "nothing left to do at step 8" in caplog.text
    assert [p.read_bytes() for p in sorted(done.folder.glob("*/model.safetensors"))] == before
    assert len(read_metrics(done.folder, "train")) == 8
    assert len(read_metrics(done.folder, "valid")) == 2


def test_what_was_best_stays_best_over_sittings_and_leaves_the_learning_alone(
    run_farm: RunFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        score_as([5, 7, 6], patch)
        straight = run_farm(tmp_path / "straight", "run.max_steps=12")
    score_as([5, 9, 7, 6], monkeypatch)
    run_farm(tmp_path, "run.max_steps=6")  # ends between two validations: step 6 is the best
    best = tmp_path / "farm" / "best"
    weights = (best / "model.safetensors").read_bytes()
    resumed = run_farm(tmp_path, "run.max_steps=12", resume=True)
    assert resumed.best == (6, 9)
    assert (best / "model.safetensors").read_bytes() == weights
    card = (best / "README.md").read_text(encoding="utf-8")
    assert "steps until the best weights: 6" in card
    assert "BLEU 9.00" in card
    assert differing(resumed, straight) == []
    assert [*resumed.progress.snapshots] == [*straight.progress.snapshots]
    patience = [(run.progress.n_worse, run.progress.best_step) for run in (resumed, straight)]
    assert patience == [(1, 8), (1, 8)]


def test_a_run_that_ended_without_its_validation_gets_it_on_resume(
    run_farm: RunFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        stop_at(3, patch)
        run_farm(tmp_path, "run.max_steps=3")  # eval_every is 4
    assert not (tmp_path / "farm" / "best").exists()
    resumed = run_farm(tmp_path, "run.max_steps=3", resume=True)
    assert [record["step"] for record in read_metrics(resumed.folder, "valid")] == [3]
    assert differing(Translator.from_pretrained(resumed.folder / "best"), resumed) == []


# --- every way of learning goes on alike ---------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        ["run.judged=ema", "run.ema_decay=0.9"],
        ["optimizer.r_drop=1.0", "optimizer.schedule=cosine", "optimizer.decay_steps=7"],
        ["run.dtype=float16", "optimizer.schedule=noam", "optimizer.lr=0.5"],
        ["run.dtype=bfloat16", "optimizer.schedule=constant", "run.judged=raw"],
    ],
    ids=lambda settings: settings[0],
)
def test_other_ways_of_learning_go_on_alike_too(
    settings: list[str], run_farm: RunFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = run_farm(tmp_path / "straight", *settings)
    with monkeypatch.context() as patch:
        stop_at(5, patch)
        run_farm(tmp_path / "cut", *settings)
    seed_everything(99)
    resumed = run_farm(tmp_path / "cut", *settings, resume=True)
    assert differing(resumed, straight) == []
    one, other = (Translator.from_pretrained(run.folder / "last") for run in (resumed, straight))
    assert differing(one, other) == []
    assert resumed.stepper.scaler.state_dict() == straight.stepper.scaler.state_dict()


class PowerCutError(BaseException):
    """Nothing of ours may catch it."""


@pytest.mark.parametrize("step", [4, 6, 8])
def test_a_power_cut_costs_no_more_than_the_steps_since_the_last_save(
    step: int, farm_run: Run, run_farm: RunFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = Run._count

    def cut(self: Run, *args: Any) -> None:
        count(self, *args)
        if self.progress.step == step:
            raise PowerCutError

    with monkeypatch.context() as patch:
        patch.setattr(Run, "_count", cut)
        with pytest.raises(PowerCutError):
            run_farm(tmp_path, "run.save_every=1")
    state = torch.load(tmp_path / "farm" / "state.pt", weights_only=True)
    assert state["progress"]["step"] == step - 1
    resumed = run_farm(tmp_path, resume=True)  # how often to save may change
    assert differing(resumed, farm_run) == []
    assert [record["step"] for record in read_metrics(resumed.folder, "train")] == [*range(1, 9)]


def test_float16_counts_the_steps_it_skipped(
    run_farm: RunFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scaler = torch.amp.GradScaler
    monkeypatch.setattr(
        torch.amp, "GradScaler", lambda *a, **options: scaler(*a, init_scale=2.0**40, **options)
    )
    done = run_farm(tmp_path, "run.dtype=float16", "run.max_steps=3")
    assert done.progress.n_skipped == 3
    assert [r["n_skipped"] for r in read_metrics(done.folder, "train")] == [1, 2, 3]


def test_a_signal_to_one_process_stops_all_of_them(
    make_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the others would wait for it: they would measure and push, and it would not."""
    current = make_run("run.max_steps=2")

    def gather(value: Any) -> list[Any]:
        return [value, True] if isinstance(value, bool) else [value]

    monkeypatch.setattr(current.team, "gather", gather)
    current.train()
    assert current.must_stop

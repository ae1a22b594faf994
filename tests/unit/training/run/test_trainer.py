"""The loop: when it ends, and that stopping and going on leaves no trace."""

import dataclasses
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.runs import (
    RunFarm,
    curve,
    differing,
    read_metrics,
    read_samples,
    same_models,
    score_as,
    stop_at,
)
from training.command import run_command
from training.run import validation
from training.run.trainer import Trainer, seed_everything


def test_a_run_leaves_its_files_and_records_every_step_and_validation(farm_run: Trainer) -> None:
    names = {path.name for path in farm_run.folder.iterdir() if not path.name.startswith(".")}
    promised = {"best", "last", "state.pt", "metrics.jsonl", "samples.md", "recipe.json"}
    assert names >= promised | {"machine.json", "cleaning.json", "tokenizer.json"}
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


def test_early_stopping_counts_validations_without_a_better_score(
    run_farm: RunFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    score_as([11, 13, 12, 14, 14, 13.9, 15, 16], monkeypatch)
    done = run_farm(tmp_path, "run.eval_every=1", "run.patience=2")
    assert done.progress.step == 6
    assert (done.progress.best_bleu, done.progress.best_step) == (14, 4)


def compare_optimizers(one: Trainer, other: Trainer) -> None:
    states = [run.stepper.optimizer.state_dict() for run in (one, other)]
    assert states[0]["param_groups"] == states[1]["param_groups"]
    torch.testing.assert_close(states[0]["state"], states[1]["state"], rtol=0, atol=0)


def test_a_termination_ends_a_command_as_ctrl_c_does() -> None:
    """So drafts of the cache are removed when the page stops a run that reads its data."""
    assert run_command(lambda: signal.raise_signal(signal.SIGTERM)) == 130


def stop_in_validation(patch: pytest.MonkeyPatch) -> None:
    """Send SIGTERM while the validation set is translated; the validation is finished."""
    decode = validation.decode_pairs

    def stop_and_decode(*args: Any, **options: Any) -> Any:
        signal.raise_signal(signal.SIGTERM)
        return decode(*args, **options)

    patch.setattr(validation, "decode_pairs", stop_and_decode)


@pytest.mark.parametrize(
    ("stop", "step", "settings"),
    [
        (partial(stop_at, 3), 3, []),
        (partial(stop_at, 4), 4, []),
        (stop_in_validation, 4, []),
        (partial(stop_at, 5), 5, ["optimizer.schedule=cosine", "optimizer.decay_steps=7"]),
    ],
    ids=["in step 3", "in step 4", "in the validation", "cosine"],
)
def test_a_stopped_run_goes_on_as_if_it_had_never_stopped(
    stop: Callable[[pytest.MonkeyPatch], None],
    step: int,
    settings: list[str],
    farm_run: Trainer,
    run_farm: RunFarm,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    straight = run_farm(tmp_path / "straight", *settings) if settings else farm_run
    with monkeypatch.context() as patch:
        stop(patch)
        stopped = run_farm(tmp_path, *settings)
    assert stopped.progress.step == step
    seed_everything(99)  # a new process starts from another random state
    resumed = run_farm(tmp_path, *settings, resume=True)
    assert differing(resumed, straight) == []
    assert same_models(resumed.folder, straight.folder)
    compare_optimizers(resumed, straight)
    progress = [dataclasses.asdict(run.progress) for run in (straight, resumed)]
    for values in progress:
        del values["seconds"], values["validation_s"], values["snapshots"]
    assert progress[0] == progress[1]
    assert curve(resumed.folder) == curve(straight.folder)
    assert read_samples(resumed.folder) == read_samples(straight.folder)

"""The budget of a run: its schedule, its batch, and what is said about it."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.runs import read_metrics
from training.config.recipe import RunConfig, parse_recipe
from training.run import validation
from training.run.plan import Plan, choose_batch, describe_plan
from training.run.trainer import Run

RunFarm = Callable[..., Run]
BUDGET = ("optimizer.schedule=linear", "optimizer.warmup_steps=null", "run.save_every=1")


@pytest.mark.parametrize(("tokens", "batch"), [(9e6, 4096), (3e6, 2048), (6e5, 512), (1e3, 512)])
def test_the_batch_leaves_enough_steps(tokens: float, batch: int) -> None:
    assert choose_batch(tokens) == batch


def make_config(**run: str) -> RunConfig:
    data = {"src_lang": "de", "tgt_lang": "en", "dataset": "user/name"}
    return parse_recipe({"run": {"name": "test", **run}, "data": data}, where="test")


def test_a_smaller_model_is_no_advice_for_fine_tuning() -> None:
    plan = Plan(batch_tokens=512, n_steps=90, n_passes=1.0, n_tokens=4e4, minutes=1.0)
    advice = "a smaller model, --set model.d_model=128"
    assert advice in " ".join(describe_plan(plan, make_config()))
    for setting in ("pretrained", "pretrained_encoder"):
        config = make_config(**{setting: "de-en"})
        assert advice not in " ".join(describe_plan(plan, config))


def test_the_time_limit_includes_the_last_validation(
    run_farm: RunFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = validation.evaluate

    def evaluate_slowly(*args: Any, **options: Any) -> Any:
        time.sleep(2)
        return evaluate(*args, **options)

    monkeypatch.setattr(validation, "evaluate", evaluate_slowly)
    settings = ["run.max_minutes=0.15", "run.max_steps=100000", "run.eval_every=20"]
    done = run_farm(tmp_path, *settings, "optimizer.schedule=linear")
    assert done.progress.step > 20  # more than one validation
    assert 6 < done.progress.seconds < 10.5  # of 9


def test_the_fastest_number_of_threads_is_kept_for_the_run(
    run_farm: RunFarm, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with caplog.at_level("INFO"):
            done = run_farm(tmp_path, "run.max_steps=4")
        chosen = done.config.run.n_threads
        assert f"threads: {chosen}, by the time of a batch (2 in " in caplog.text
        assert torch.get_num_threads() == 2  # as before the run
        other = 3 - chosen
        run_farm(tmp_path, "run.max_steps=8", f"run.n_threads={other}", resume=True)
    finally:
        torch.set_num_threads(before)
    card = (done.folder / "best" / "README.md").read_text(encoding="utf-8")
    names = {1: "CPU, 1 thread", 2: "CPU, 2 threads"}
    assert re.search(rf"{names[chosen]}, float32; from step 4 .*{names[other]}\n", card)


def test_the_rate_falls_to_nothing_at_the_end_of_the_time(
    run_farm: RunFarm, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = (*BUDGET, "run.eval_every=100000", "run.max_steps=100000", "optimizer.accumulate=1")
    options = (*settings, "run.max_minutes=0.05", "optimizer.batch_tokens=0")
    with caplog.at_level("INFO"):
        done = run_farm(tmp_path, *options)
    rates = [record["lr"] for record in read_metrics(done.folder, "train")]
    assert rates[-1] < max(rates) / 2
    assert done.config.optimizer.batch_tokens in (512, 1024, 2048, 4096)
    assert "plan: 0.05 minutes are about" in caplog.text
    assert "passes over the data" in caplog.text
    phases = ["reading", "cleaning", "tokenizer", "encoding", "training"]
    assert [message for message in caplog.messages if message in phases] == phases
    more = run_farm(
        tmp_path, *settings, "run.max_minutes=0.1", "optimizer.batch_tokens=0", resume=True
    )
    resumed = [record["lr"] for record in read_metrics(more.folder, "train")][len(rates) :]
    assert resumed[-1] < resumed[1] < max(rates)  # goes on at half of the new budget


def test_steps_are_a_budget_that_resumes_exactly(run_farm: RunFarm, tmp_path: Path) -> None:
    done = run_farm(tmp_path, *BUDGET)
    rates = [record["lr"] for record in read_metrics(done.folder, "train")]
    assert rates == pytest.approx(
        [1e-2 * (1 - (n + 0.5) / 8) / 0.9 if n else 6.25e-3 for n in range(8)]
    )

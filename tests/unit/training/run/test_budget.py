"""The budget of a run: its schedule, its batch, and what is said about it."""

from pathlib import Path

import pytest
import torch

from tests.runs import RunFarm, read_metrics

BUDGET = ("optimizer.schedule=linear", "optimizer.warmup_steps=null", "run.save_every=1")


def test_the_rate_falls_to_nothing_at_the_end_of_the_time(
    run_farm: RunFarm, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = (*BUDGET, "run.eval_every=100000", "run.max_steps=100000", "optimizer.accumulate=1")
    options = (*settings, "run.max_minutes=0.05", "optimizer.batch_tokens=0")
    with caplog.at_level("INFO"):
        done = run_farm(tmp_path, *options)
    rates = [record["lr"] for record in read_metrics(done.folder, "train")]
    assert rates[-1] < max(rates) / 2
    assert done.recipe.optimizer.batch_tokens in (512, 1024, 2048, 4096)
    assert "passes over the data, in 0.05 minutes" in caplog.text
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


def test_the_fastest_number_of_threads_is_kept_for_the_run(
    run_farm: RunFarm, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with caplog.at_level("INFO"):
            done = run_farm(tmp_path, "run.max_steps=4")
        chosen = done.recipe.run.n_threads
        assert f"threads: {chosen}, by the time of a batch (2 in " in caplog.text
        assert torch.get_num_threads() == 2  # as before the run
    finally:
        torch.set_num_threads(before)
    card = (done.folder / "best" / "README.md").read_text(encoding="utf-8")
    names = {1: "CPU, 1 thread", 2: "CPU, 2 threads"}
    assert f"{names[chosen]}, float32\n" in card

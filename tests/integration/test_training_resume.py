"""A run whose process is killed, again and again, ends with the same bits as one that was not."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.runs import FarmOptions, as_flags, curve, read_metrics, same_models
from training.train import main

SETTINGS = ["run.max_steps=30", "run.eval_every=10", "run.save_every=1", "run.patience=9"]
"""A state is written at each step, so most kills fall into a save."""
KILL_AFTER = (5, 17)
"""Steps on record when the process is killed; the second session begins with the first's state."""


def start(words: list[str], repo: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "training.train", *words],
        cwd=repo,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""},
        stderr=subprocess.DEVNULL,
    )


def kill_after(n_steps: int, words: list[str], folder: Path, repo: Path) -> None:
    """Start a session in a process of its own and kill it once so many steps are on record."""
    process = start(words, repo)
    metrics = folder / "metrics.jsonl"
    deadline = time.monotonic() + 200
    try:
        while not (metrics.exists() and len(read_whole_lines(metrics)) >= n_steps):
            assert process.poll() is None, "ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.002)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == -signal.SIGKILL


def read_whole_lines(metrics: Path) -> list[str]:
    """The steps on record; the last line may be half-written while we look."""
    lines = metrics.read_text(encoding="utf-8").split("\n")[:-1]
    return [line for line in lines if json.loads(line)["kind"] == "train"]


@pytest.mark.slow
def test_a_run_killed_twice_ends_with_the_bits_of_one_that_was_not(
    farm_recipe: Path, farm_options: FarmOptions, repo: Path, tmp_path: Path
) -> None:
    straight, folder = (tmp_path / name / "farm" for name in ("straight", "killed"))
    commands = [
        [str(farm_recipe), *as_flags(farm_options(each.parent, *SETTINGS))]
        for each in (straight, folder)
    ]
    assert main(commands[0]) == 0
    words = commands[1]
    for n_steps in KILL_AFTER:
        resume = ["--resume", str(folder)] if folder.exists() else []
        kill_after(n_steps, [*words, *resume], folder, repo)
        saved = torch.load(folder / "state.pt", weights_only=True)["progress"]["step"]
        assert n_steps - 1 <= saved < 30
    (folder / ".state.pt.draft").write_bytes(b"a save that was cut off")
    # In a process of its own: TensorBoard orders sessions of the same second by their process.
    assert start([*words, "--resume", str(folder)], repo).wait() == 0
    assert same_models(folder, straight)
    assert curve(folder) == curve(straight)
    events = EventAccumulator(str(folder / "tensorboard")).Reload().Scalars("train/loss")
    assert [event.step for event in events] == [r["step"] for r in read_metrics(folder, "train")]

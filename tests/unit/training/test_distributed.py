"""A team: several processes end with the weights of one, tell the same curve, and stop together."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from hubnmt import Translator
from hubnmt.errors import ConfigError
from tests.runs import FarmOptions, RunFarm, as_flags, read_metrics
from training.distributed import pick_device

Launch = Callable[..., "subprocess.Popen[str]"]

STILL = [f"model.{name}=0.0" for name in ("dropout", "attention_dropout", "ff_dropout")]
"""Without dropout, which each process draws for itself, the curves must be the same."""


TRAIN_AND_COUNT = """
import os, sys
from pathlib import Path
from training import train

finished = []
run = train.run
train.run = lambda *arguments, **options: finished.append(run(*arguments, **options))
status = train.main()
names = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
sys.stderr.write(f"{sum('gloo' in name for name in names)} gloo threads left\\n")  # in one piece
sys.exit(status)
"""
"""Train as the command does, keep the run, and count the threads of its process group."""
THREADS_LEFT = re.compile(r"(\d+) gloo threads left")


@pytest.mark.parametrize(
    ("name", "rank", "message"),
    [
        *((name, 0, "cannot be used") for name in ("", "gpu", "cuda:x", "cuda:99")),
        ("meta", 0, "cannot train; use auto, cpu or cuda"),
        ("cuda:1", 1, "one GPU for several processes; use cuda"),
    ],
)
def test_an_impossible_device_is_refused(name: str, rank: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        pick_device(name, local_rank=rank, is_alone=not rank)


@pytest.mark.gpu
def test_each_process_takes_the_gpu_of_its_number() -> None:
    assert {str(pick_device(name, is_alone=False)) for name in ("auto", "cuda")} == {"cuda:0"}
    with pytest.raises(ConfigError, match=r"cuda:99.* cannot be used"):
        pick_device("cuda", local_rank=99, is_alone=False)


@pytest.fixture
def launch(farm_recipe: Path, farm_options: FarmOptions, repo: Path, tmp_path: Path) -> Launch:
    """Start the farm run with `torchrun` on two processes; the run folder is `tmp_path/farm`."""

    def start(*settings: str, extra: tuple[str, ...] = ()) -> "subprocess.Popen[str]":
        sets = as_flags(farm_options(tmp_path, *settings))
        script = tmp_path / "train_and_count.py"
        script.write_text(TRAIN_AND_COUNT, encoding="utf-8")
        torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        wait = ["--wait", str(tmp_path / "one-at-a-time.lock")]
        command = [*torchrun, str(script), str(farm_recipe), *sets, *wait, *extra]
        return subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=repo,
            env=os.environ
            | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(repo)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


def wait(process: "subprocess.Popen[str]") -> str:
    try:
        return process.communicate(timeout=240)[1]
    except subprocess.TimeoutExpired:
        process.kill()  # or its open pipes are reported by a later test
        raise


def curve(folder: Path) -> list[list[float]]:
    return [[r["step"], r["loss"], r["grad_norm"]] for r in read_metrics(folder, "train")]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """Read a model's weights without the biases of keys: the softmax takes no notice of those, so
    their gradients are mere rounding, which differs from machine to machine and AdamW blows up."""
    found = dict(Translator.from_pretrained(folder).model.named_parameters())
    return {
        name: torch.cat(tensor.detach().chunk(3)[::2]) if "qkv_proj.bias" in name else tensor
        for name, tensor in found.items()
    }


@pytest.mark.slow
def test_two_processes_stop_and_resume_and_learn_what_one_learns_with_twice_the_batches(
    launch: Launch, run_farm: RunFarm, tmp_path: Path
) -> None:
    folder = tmp_path / "farm"
    shared = (*STILL, "run.eval_every=6")
    process = launch(*shared, "optimizer.accumulate=1", "run.max_steps=300")
    metrics = folder / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while not (metrics.exists() and metrics.read_text(encoding="utf-8").count("\n") > 2):
        assert time.monotonic() < deadline
        assert process.poll() is None, wait(process)[-3000:]
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    errors = wait(process)
    assert f"--resume {folder}" in errors
    stopped = torch.load(folder / "state.pt", weights_only=True)["progress"]["step"]
    assert 2 < stopped < 300
    assert read_metrics(folder, "train")[-1]["step"] == stopped
    settings = (*shared, f"run.max_steps={stopped + 5}")
    resume = ("--resume", str(folder))
    process = launch(*settings, "optimizer.accumulate=1", extra=resume)
    errors = wait(process)
    assert process.returncode == 0, errors[-3000:]
    assert "Warning" not in errors
    # A group that outlives the run can hang the end of the process.
    assert THREADS_LEFT.findall(errors) == ["0", "0"]
    alone = run_farm(tmp_path / "alone", *settings, "optimizer.accumulate=2")
    for mine, theirs in zip(curve(folder), curve(alone.folder), strict=True):
        assert mine == pytest.approx(theirs, rel=1e-3)
    evaluations = [read_metrics(each, "valid") for each in (folder, alone.folder)]
    steps = [[record["step"] for record in records] for records in evaluations]
    assert steps[0] == steps[1]
    expected = weights(alone.folder / "last")
    for name, tensor in weights(folder / "last").items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-2, atol=1e-3)
    state = torch.load(folder / "state.pt", weights_only=True)
    assert len(state["generators"]) == 2
    assert not torch.equal(*(each["torch"] for each in state["generators"]))


@pytest.mark.slow
def test_what_the_leader_finds_wrong_ends_all_with_one_line(launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "farm").mkdir()
    (tmp_path / "farm" / "metrics.jsonl").write_text("", encoding="utf-8")
    process = launch()
    errors = wait(process)
    assert process.returncode != 0
    lines = [line for line in errors.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, errors[-3000:]
    assert "already holds a run" in lines[0]

"""A long job that is killed and interrupted ends with the same file as one that was not."""

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from hubnmt.__main__ import main
from hubnmt.model import Transformer
from hubnmt.text.tokenizer import Tokenizer
from tests.hub import save_with_card

N_LINES = 1_500
OPTIONS = ["--beam-size", "1", "--max-new-tokens", "4", "--no-guard"]


@pytest.fixture
def job(
    tiny_model: Transformer, tiny_tokenizer: Tokenizer, tiny_texts: list[str], tmp_path: Path
) -> list[str]:
    """The command, without `--output`: many lines through a random model."""
    with torch.no_grad():
        for parameter in tiny_model.parameters():
            parameter.copy_(torch.randn_like(parameter) / max(parameter.shape[-1] ** 0.5, 1))
    folder = save_with_card(tmp_path / "model", tiny_model, tiny_tokenizer)
    lines = [f"{tiny_texts[n % len(tiny_texts)]} {n}" if n % 50 else "" for n in range(N_LINES)]
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return ["translate", "--model", str(folder), "--input", str(tmp_path / "in.txt"), *OPTIONS]


def interrupt(command: list[str], output: Path, how: signal.Signals, env: dict[str, str]) -> int:
    """Start a job, and stop it as soon as it has written some lines."""
    n_before = output.stat().st_size if output.exists() else 0
    process = subprocess.Popen(
        [sys.executable, "-m", "hubnmt", *command, "--output", str(output)],
        env=env,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while process.poll() is None and not (output.exists() and output.stat().st_size > n_before):
            time.sleep(0.005)
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(how)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert "Traceback" not in said
    return process.returncode


@pytest.mark.slow
def test_a_job_that_was_killed_and_interrupted_gives_the_same_file(
    job: list[str], repo: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    env = {**environment, "PYTHONPATH": str(repo)}
    whole, output = tmp_path / "whole.txt", tmp_path / "out.txt"
    assert main([*job, "--output", str(whole)]) == 0
    assert interrupt(job, output, signal.SIGKILL, env) == -signal.SIGKILL
    with output.open("ab") as file:  # a line that was being written when the power went
        file.write(b"half a li")
    assert interrupt([*job, "--continue"], output, signal.SIGINT, env) == 130
    assert 0 < output.read_bytes().count(b"\n") < N_LINES
    assert main([*job, "--output", str(output), "--continue"]) == 0
    assert output.read_bytes() == whole.read_bytes()
    assert output.read_bytes().count(b"\n") == N_LINES

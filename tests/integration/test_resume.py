"""A long job that is interrupted half-way ends with the same file as one that was not."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from hubnmt.checkpoint.folder import StoredModel, save_model
from hubnmt.config import DecodingConfig
from hubnmt.model import Transformer
from hubnmt.text.tokenizer import Tokenizer, Tokenizers

N_LINES = 2_500
OPTIONS = ["--beam-size", "1", "--max-new-tokens", "4", "--no-guard"]


@pytest.fixture
def job(
    tiny_model: Transformer, tiny_tokenizer: Tokenizer, tiny_texts: list[str], tmp_path: Path
) -> list[str]:
    """The command, without `--output`: thousands of lines through a random model."""
    with torch.no_grad():
        for parameter in tiny_model.parameters():
            parameter.copy_(torch.randn_like(parameter) / max(parameter.shape[-1] ** 0.5, 1))
    stored = StoredModel(
        model=tiny_model,
        tokenizers=Tokenizers(tiny_tokenizer, tiny_tokenizer),
        decoding=DecodingConfig(),
    )
    save_model(tmp_path / "model", stored)
    lines = [f"{tiny_texts[n % len(tiny_texts)]} {n}" if n % 50 else "" for n in range(N_LINES)]
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    files = ["--model", str(tmp_path / "model"), "--input", str(tmp_path / "in.txt")]
    return [sys.executable, "-m", "hubnmt", "translate", *files, *OPTIONS]


def interrupt(command: list[str], output: Path, how: signal.Signals, env: dict[str, str]) -> int:
    """Start a job, and stop it as soon as the first lines are there."""
    process = subprocess.Popen(
        [*command, "--output", str(output)], env=env, stderr=subprocess.PIPE, text=True
    )
    try:
        while process.poll() is None and not (output.exists() and output.stat().st_size):
            time.sleep(0.005)
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(how)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert "Traceback" not in said
    return process.returncode


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=lambda how: how.name)
def test_an_interrupted_job_that_goes_on_gives_the_same_file(
    how: signal.Signals, job: list[str], repo: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    env = {**environment, "PYTHONPATH": str(repo)}
    whole, output = tmp_path / "whole.txt", tmp_path / "out.txt"
    subprocess.run([*job, "--output", str(whole)], env=env, check=True, timeout=120)
    status = interrupt(job, output, how, env)
    assert status == (130 if how is signal.SIGINT else -signal.SIGKILL)
    n_done = output.read_bytes().count(b"\n")
    assert 0 < n_done < N_LINES
    with output.open("ab") as file:  # a line that was being written when the power went
        file.write(b"half a li")
    subprocess.run([*job, "--output", str(output), "--continue"], env=env, check=True, timeout=120)
    assert output.read_bytes() == whole.read_bytes()
    assert output.read_bytes().count(b"\n") == N_LINES


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_memory_does_not_grow_with_the_file(
    job: list[str], repo: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    """Ten times the lines take the same memory, up to a few megabytes of the allocator's."""
    env = {**environment, "PYTHONPATH": str(repo)}
    path = tmp_path / "in.txt"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    peaks = []
    for n in (N_LINES // 10, N_LINES):
        path.write_text("".join(lines[:n]), encoding="utf-8")
        output = tmp_path / f"{n}.txt"
        process = subprocess.Popen([*job, "--output", str(output)], env=env)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        assert output.read_bytes().count(b"\n") == n
        peaks.append(usage.ru_maxrss / 1024)  # MiB
    assert peaks[1] < peaks[0] + 40

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
    """Start a job, and stop it as soon as it has written some lines."""
    n_before = output.stat().st_size if output.exists() else 0
    process = subprocess.Popen(
        [*command, "--output", str(output)], env=env, stderr=subprocess.PIPE, text=True
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


def run_measured(command: list[str], output: Path, env: dict[str, str]) -> float:
    """Run a job to its end; return its most memory in MiB."""
    process = subprocess.Popen([*command, "--output", str(output)], env=env)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss / 1024


@pytest.mark.slow
def test_a_job_that_was_killed_and_interrupted_gives_the_same_file_in_the_same_memory(
    job: list[str], repo: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    """Ten times the lines take the same memory, up to a few megabytes of the allocator's."""
    env = {**environment, "PYTHONPATH": str(repo)}
    source, whole, output = (tmp_path / name for name in ("in.txt", "whole.txt", "out.txt"))
    peak_mib = run_measured(job, whole, env)
    assert interrupt(job, output, signal.SIGKILL, env) == -signal.SIGKILL
    with output.open("ab") as file:  # a line that was being written when the power went
        file.write(b"half a li")
    assert interrupt([*job, "--continue"], output, signal.SIGINT, env) == 130
    assert 0 < output.read_bytes().count(b"\n") < N_LINES
    subprocess.run([*job, "--output", str(output), "--continue"], env=env, check=True, timeout=120)
    assert output.read_bytes() == whole.read_bytes()
    assert output.read_bytes().count(b"\n") == N_LINES
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    source.write_text("".join(lines[: N_LINES // 10]), encoding="utf-8")
    assert peak_mib < run_measured(job, tmp_path / "short.txt", env) + 40

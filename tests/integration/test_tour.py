"""The tour for teachers runs from its first cell to its last, and opens as a notebook."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

MAX_CPU_S = 60
"""Of the processor, which a busy machine does not change; the tour takes about 8."""


@pytest.fixture
def tour(repo: Path) -> Path:
    return repo / "hubnmt" / "docs" / "tour.py"


@pytest.mark.slow
def test_the_tour_runs_in_under_a_minute(repo: Path, tour: Path, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(repo), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(tour)],
        cwd=tmp_path,
        env={**env, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=280,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr == ""
    assert "Two dogs are running and playing in the snow." in done.stdout
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < MAX_CPU_S

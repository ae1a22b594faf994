"""Throughput: the loss is weighted by tokens, pauses are excluded, durations are formatted."""

import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from training.run import throughput
from training.run.throughput import Throughput, seconds_left, show_time


def set_clock(monkeypatch: pytest.MonkeyPatch, *times: float) -> None:
    """Let the meter, and nobody else's thread, read these times."""
    monkeypatch.setattr(throughput, "time", SimpleNamespace(monotonic=iter(times).__next__))


def test_the_meter_weighs_steps_by_their_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    set_clock(monkeypatch, 10.0, 14.0)
    counted = Throughput()
    counted.add(2.0, 30)
    counted.add(5.0, 10)
    assert counted.to_dict() == {"loss": pytest.approx(2.75), "tokens_per_s": pytest.approx(10.0)}


def test_the_time_left_ends_with_the_steps_or_the_clock() -> None:
    facts = {"steps_done": 10, "steps_to_do": 30, "seconds_spent": 5.0}
    assert seconds_left(**facts, limit_s=math.inf) == pytest.approx(15.0)
    assert seconds_left(**facts, limit_s=4.0) == 4.0
    assert seconds_left(**facts, limit_s=-1.0) == 0.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (45, "45 s"),
        (89, "89 s"),
        (90, "2 min"),
        (3600, "60 min"),
        (11_100, "3 h 05 min"),
    ],
)
def test_times_read_well(seconds: float, text: str) -> None:
    assert show_time(seconds) == text


IMPORT_ON_WINDOWS = """
import importlib, pkgutil, sys
import training.train, training.finish  # all libraries, as they are here
import psutil
names = [name for name in sys.modules if name.partition(".")[0] == "training"]
for name in names:
    del sys.modules[name]
for name in ("resource", "fcntl", "pwd", "grp", "termios"):
    sys.modules[name] = None
sys.platform = "win32"
import training
for module in pkgutil.iter_modules(training.__path__):
    importlib.import_module(f"training.{module.name}")
"""


def test_training_can_be_imported_without_what_windows_lacks(repo: Path) -> None:
    command = [sys.executable, "-c", IMPORT_ON_WINDOWS]
    done = subprocess.run(command, cwd=repo, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

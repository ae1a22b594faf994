"""Tracking: the hook passes numbers on, is imported when asked for only, and fails in one line."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hubnmt.errors import ConfigError
from training.config.run import LogConfig
from training.run.logging import Tracker

HOOKS = pytest.mark.parametrize("hook", ["trackio", "wandb"])


class FakeLibrary(SimpleNamespace):
    """Writes down what it is called with."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.error = error

    def init(self, **options: Any) -> None:
        if self.error is not None:
            raise self.error
        self.calls.append(("init", options))

    def log(self, values: dict[str, float], *, step: int) -> None:
        self.calls.append(("log", {"step": step, **values}))

    def finish(self) -> None:
        self.calls.append(("finish", {}))


@HOOKS
def test_the_numbers_reach_the_library(hook: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakeLibrary()
    monkeypatch.setitem(sys.modules, hook, library)
    settings = LogConfig.from_dict({"hook": hook, "project": "farming"})
    tracker = Tracker(settings, Path("runs/farm"), {"run": {"seed": 5}})
    tracker.add(50, "train", {"loss": 1.5, "epoch": 2})
    tracker.add(50, "valid", {"bleu": 30.0, "bleu_signature": "nrefs:1"})
    tracker.close()
    opened = {"project": "farming", "name": "farm", "config": {"run": {"seed": 5}}}
    mine = {"id": "farm"} if hook == "wandb" else {}
    assert library.calls == [
        ("init", {**opened, **mine, "resume": "allow"}),
        ("log", {"step": 50, "train/loss": 1.5, "train/epoch": 2}),
        ("log", {"step": 50, "valid/bleu": 30.0}),
        ("finish", {}),
    ]


@HOOKS
def test_a_library_that_is_missing_is_one_line(hook: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, hook, None)
    settings = LogConfig.from_dict({"hook": hook})
    with pytest.raises(ConfigError, match=f"{hook} is not installed: pip install {hook}") as error:
        Tracker(settings, Path("runs/farm"), {})
    assert "\n" not in str(error.value)

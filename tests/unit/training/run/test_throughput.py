"""Throughput: the loss is weighted by tokens, and pauses are excluded."""

from types import SimpleNamespace

import pytest

from training.run import throughput
from training.run.throughput import Throughput


def set_clock(monkeypatch: pytest.MonkeyPatch, *times: float) -> None:
    """Let the meter, and nobody else's thread, read these times."""
    monkeypatch.setattr(throughput, "time", SimpleNamespace(monotonic=iter(times).__next__))


def test_the_meter_weighs_steps_by_their_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    set_clock(monkeypatch, 10.0, 17.0)
    counted = Throughput()
    counted.add(2.0, 30)
    counted.pause(3.0)
    counted.add(5.0, 10)
    assert counted.to_dict() == {"loss": pytest.approx(2.75), "tokens_per_s": pytest.approx(10.0)}

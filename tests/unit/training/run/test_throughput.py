"""Throughput: the loss is weighted by tokens, pauses are excluded, durations are formatted."""

import math
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

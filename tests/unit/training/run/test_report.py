"""Report: every line of metrics.jsonl is JSON, samples.md is one table per validation."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from training.run.report import RunReport


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    def refuse(word: str) -> float:
        raise AssertionError(f"{word} is no JSON")

    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line, parse_constant=refuse) for line in lines]


def test_a_report_that_goes_on_forgets_what_is_behind_its_step(tmp_path: Path) -> None:
    """Also the curves: those of a killed run would be drawn twice."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for first, last, value in ((1, 6, 2.0), (4, 5, 1.0)):
        run_report = RunReport(tmp_path, step=first - 1)
        for step in range(first, last + 1):
            run_report.add(step, "train", {"loss": value})
        run_report.close()
        time.sleep(1.1)  # the files are read in the order of their seconds
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    expected = [(1, 2.0), (2, 2.0), (3, 2.0), (4, 1.0), (5, 1.0)]
    assert [(event.step, event.value) for event in events.Scalars("train/loss")] == expected
    assert [(record["step"], record["loss"]) for record in read_metrics(tmp_path)] == expected

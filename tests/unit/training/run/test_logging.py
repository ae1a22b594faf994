"""Report: every line of metrics.jsonl is JSON, samples.md is one table per validation."""

import errno
import json
import logging
import math
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from hubnmt.attention.maps import Attention, TokenSpans
from hubnmt.errors import ModelFolderError
from training.config.run import LogConfig
from training.run import logging as report
from training.run.logging import RunReport, Tracker, draw_heads

ROWS = [("Ein Hund.", "A dog.", "A cat."), ("Zwei.", "Two.", "")]


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    def refuse(word: str) -> float:
        raise AssertionError(f"{word} is no JSON")

    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line, parse_constant=refuse) for line in lines]


def read_tables(folder: Path) -> list[list[list[str]]]:
    """The rows of each table of samples.md, cells as they are written."""
    page = (folder / "samples.md").read_text(encoding="utf-8")
    tables = page.split("\n## ")[1:]
    return [
        [line.strip("|").split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
        for table in tables
    ]


def test_each_record_is_a_line_of_json(tmp_path: Path) -> None:
    run_report = RunReport(tmp_path)
    run_report.add(50, "train", {"loss": 1.5, "lr": 1e-3})
    run_report.add(100, "valid", {"bleu": 30.0, "bleu_signature": "nrefs:1|tok:13a"})
    run_report.close()
    first, second = read_metrics(tmp_path)
    assert first.items() >= {"step": 50, "kind": "train", "loss": 1.5, "lr": 1e-3}.items()
    assert second["bleu_signature"] == "nrefs:1|tok:13a"
    assert isinstance(first["time"], float)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_number_that_is_none_does_not_break_the_file(value: float, tmp_path: Path) -> None:
    run_report = RunReport(tmp_path)
    run_report.add(50, "valid", {"dev_loss": value})
    run_report.close()
    assert read_metrics(tmp_path)[0]["step"] == 50


def test_a_second_report_goes_on_where_the_first_ended(tmp_path: Path) -> None:
    for step in (1, 2):
        run_report = RunReport(tmp_path, step=step - 1)
        run_report.add(step, "train", {"loss": 1.0})
        run_report.add_samples(step, ROWS)
        run_report.close()
    assert [record["step"] for record in read_metrics(tmp_path)] == [1, 2]
    page = (tmp_path / "samples.md").read_text(encoding="utf-8")
    assert page.startswith("# The same sentences as the model learns\n")
    assert page.count("\n# ") == 0
    assert [page.count(f"## Step {step}\n") for step in (1, 2)] == [1, 1]


def test_records_are_on_the_disk_at_once(tmp_path: Path) -> None:
    run_report = RunReport(tmp_path)
    run_report.add(1, "train", {"loss": 1.0})
    run_report.add_samples(1, ROWS)
    assert read_metrics(tmp_path)
    assert read_tables(tmp_path)
    run_report.close()


def test_samples_are_a_table_with_its_step(tmp_path: Path) -> None:
    run_report = RunReport(tmp_path)
    run_report.add_samples(12_500, ROWS)
    run_report.close()
    page = (tmp_path / "samples.md").read_text(encoding="utf-8")
    assert "## Step 12,500\n\n| source | reference | translation |\n|---|---|---|\n" in page
    assert page.splitlines()[-2:] == ["| Ein Hund. | A dog. | A cat. |", "| Zwei. | Two. |  |"]


def test_no_text_can_break_the_table(tmp_path: Path) -> None:
    run_report = RunReport(tmp_path)
    run_report.add_samples(1, [("a|b", "two\nlines", "<script>x</script> \\| c\r\nd")])
    run_report.close()
    lines = (tmp_path / "samples.md").read_bytes().decode().split("\n")
    row = next(line for line in lines if line.startswith("| a"))
    assert row == "| a\\|b | two lines | &lt;script>x&lt;/script> \\\\\\| c d |"


def test_curves_hold_the_numbers(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run_report = RunReport(tmp_path)
    run_report.add(1, "train", {"loss": 2.0})
    run_report.add(2, "train", {"loss": 1.5})
    run_report.add(2, "valid", {"bleu": 30.0, "bleu_signature": "text"})
    run_report.close()
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert sorted(events.Tags()["scalars"]) == ["train/loss", "valid/bleu"]
    points = [(event.step, event.value) for event in events.Scalars("train/loss")]
    assert points == [(1, 2.0), (2, 1.5)]


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


@pytest.mark.parametrize("line", ["[" * 200_000, '{"step":', "3", "{}", '{"step": "x"}'])
def test_a_line_that_is_no_record_is_passed_over(line: str, tmp_path: Path) -> None:
    record = '{"step": 4, "kind": "valid", "bleu": 7.5}'
    (tmp_path / "metrics.jsonl").write_text(f"{line}\n{record}\n", encoding="utf-8")
    run_report = RunReport(tmp_path, step=9)
    assert run_report.scores() == {4: 7.5}
    run_report.close()


def test_without_tensorboard_the_rest_is_written_and_the_lack_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(report, "SummaryWriter", None)
    with caplog.at_level(logging.WARNING):
        run_report = RunReport(tmp_path)
    run_report.add(1, "train", {"loss": 2.0})
    run_report.add_samples(1, ROWS)
    run_report.close()
    assert "tensorboard is not installed" in caplog.text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metrics.jsonl", "samples.md"]


def spans(*tokens: str) -> TokenSpans:
    nowhere = ((0, 0),) * len(tokens)
    return TokenSpans(text="", tokens=tokens, chars=nowhere, utf8=nowhere)


def test_attention_is_a_picture_with_its_tokens(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    weights = torch.rand(2, 3, 4, 5)
    attention = Attention(
        src=spans("Ein", " Hund", " ", "`", "<eos>"),
        tgt=spans("A", " dog", ".", "<eos>"),
        cross=weights,
        encoder_self=weights,
        decoder_self=weights,
        tgt_log_probs=(0.0,) * 4,
    )
    run_report = RunReport(tmp_path)
    run_report.add_attention(7, attention)
    run_report.close()
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    (picture,) = events.Images("attention/cross")
    assert picture.step == 7
    assert picture.height == draw_heads(weights).shape[1]
    assert picture.encoded_image_string.startswith(b"\x89PNG")
    (text,) = events.Tensors("attention/tokens/text_summary")
    assert "rows: `A` `dog` `.` `<eos>`" in text.tensor_proto.string_val[0].decode()
    assert "`Ein` `Hund` `␣` ``` `<eos>`" in text.tensor_proto.string_val[0].decode()


class FakeTracker(Tracker):
    def __init__(self) -> None:
        super().__init__(LogConfig(), Path(), {})
        self.seen: list[Any] = []

    def add(self, *record: Any) -> None:
        self.seen.append(record)

    def close(self) -> None:
        self.seen.append("closed")


def test_a_tracker_sees_every_record(tmp_path: Path) -> None:
    tracker = FakeTracker()
    run_report = RunReport(tmp_path, tracker)
    run_report.add(3, "train", {"loss": 1.0})
    run_report.close()
    assert tracker.seen == [(3, "train", {"loss": 1.0}), "closed"]


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_report = RunReport(tmp_path)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", full)
        with pytest.raises(ModelFolderError, match=r"metrics\.jsonl: .*No space left"):
            run_report.add(1, "train", {"loss": 1.0})
        with pytest.raises(ModelFolderError, match=r"samples\.md: .*No space left"):
            run_report.add_samples(1, ROWS)
    run_report.close()


def test_a_disk_that_is_full_when_curves_are_drawn_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorBoard writes in a thread of its own, and tells at whatever is drawn next."""

    class FullBoard:
        def __init__(self, _: str, *, purge_step: int) -> None: ...

        def full(self, *_: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        add_scalar = add_text = close = full

    monkeypatch.setattr(report, "SummaryWriter", FullBoard)
    run_report = RunReport(tmp_path)
    for call in (
        lambda: run_report.add(1, "train", {"loss": 1.0}),
        lambda: run_report.add_samples(1, ROWS),
        run_report.close,
    ):
        with pytest.raises(ModelFolderError, match=r"tensorboard: cannot be saved .*No space left"):
            call()


def test_the_thread_that_draws_curves_leaves_a_full_disk_to_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself it prints a traceback, long before and beside the one line."""
    heard: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", lambda failed: heard.append(failed.exc_value))
    hook = threading.excepthook
    run_report = RunReport(tmp_path)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def draw_on() -> None:
        for step in range(99):
            run_report.add(step, "train", {"loss": 1.0})
            writer._worker.join(0.1)

    assert run_report._board is not None
    writer = run_report._board._get_file_writer().event_writer._async_writer
    with monkeypatch.context() as patch:
        patch.setattr(writer._writer, "write", full)
        with pytest.raises(ModelFolderError, match=r"tensorboard: cannot be saved .*No space left"):
            draw_on()
        assert not writer._worker.is_alive()
    assert heard == []
    other = threading.Thread(target=full)
    other.start()
    other.join()
    assert [type(each) for each in heard] == [OSError]
    with pytest.raises(ModelFolderError, match="No space left"):
        run_report.close()
    assert threading.excepthook is hook


def test_a_disk_that_is_full_when_a_run_goes_on_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_report = RunReport(tmp_path)
    run_report.add(1, "train", {"loss": 1.0})
    before = (tmp_path / "metrics.jsonl").read_bytes()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(ModelFolderError, match=r"metrics\.jsonl: .*No space left"):
        RunReport(tmp_path, step=0)
    assert (tmp_path / "metrics.jsonl").read_bytes() == before
    run_report.close()

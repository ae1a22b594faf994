"""Report: every line of metrics.jsonl is JSON, samples.md is one table per validation."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from hubnmt.attention.maps import Attention, TokenSpans
from training.run.logging import RunReport, draw_heads

ROWS = [("Ein Hund.", "A dog.", "A cat."), ("Zwei.", "Two.", "")]


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    def refuse(word: str) -> float:
        raise AssertionError(f"{word} is no JSON")

    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line, parse_constant=refuse) for line in lines]


def test_each_record_is_a_line_of_json(tmp_path: Path) -> None:
    run_report = RunReport(tmp_path)
    run_report.add(50, "train", {"loss": 1.5, "lr": 1e-3})
    run_report.add(100, "valid", {"bleu": 30.0, "bleu_signature": "nrefs:1|tok:13a"})
    run_report.close()
    first, second = read_metrics(tmp_path)
    assert first.items() >= {"step": 50, "kind": "train", "loss": 1.5, "lr": 1e-3}.items()
    assert second["bleu_signature"] == "nrefs:1|tok:13a"
    assert isinstance(first["time"], float)


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


def test_no_text_can_break_the_table(tmp_path: Path) -> None:
    run_report = RunReport(tmp_path)
    run_report.add_samples(1, [("a|b", "two\nlines", "<script>x</script> \\| c\r\nd")])
    run_report.close()
    lines = (tmp_path / "samples.md").read_bytes().decode().split("\n")
    row = next(line for line in lines if line.startswith("| a"))
    assert row == "| a\\|b | two lines | &lt;script>x&lt;/script> \\\\\\| c d |"


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

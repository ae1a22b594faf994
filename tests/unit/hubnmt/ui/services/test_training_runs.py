import json
from pathlib import Path

import pytest

from hubnmt.checkpoint.card import escape_cell
from hubnmt.checkpoint.files import bundled_models
from hubnmt.errors import HubNMTError
from hubnmt.ui.services.training_runs import find_run, read_run

ODD = r"a | b * _c_ [d] \ <b>&amp; `e`"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    (folder / "best").mkdir(parents=True)
    records = [
        {"step": 50, "kind": "train", "loss": 8.5, "lr": 0.1},
        {"step": 100, "kind": "train", "loss": None},
        {"step": 101, "loss": float("nan")},
        {"step": 1e300, "loss": 3.0},
        {"step": 100, "kind": "valid", "dev_loss": 4.5, "bleu": 2, "chrf": True},
        ["no", "record"],
    ]
    lines = [*map(json.dumps, records), '{"step": 150, "lo']
    (folder / "metrics.jsonl").write_text("\n".join(lines))
    return folder


def _write_samples(run: Path, *tables: tuple[int, list[tuple[str, str, str]]]) -> None:
    text = "# The same sentences as the model learns\n"
    for step, rows in tables:
        text += f"\n\n## Step {step:,}\n\n| source | reference | translation |\n|---|---|---|\n"
        text += "\n".join("| " + " | ".join(map(escape_cell, row)) + " |" for row in rows)
    (run / "samples.md").write_text(text)


def test_curves_are_what_was_recorded_torn_lines_left_out(run: Path):
    assert read_run(run).points == [
        (50, "training", 8.5),
        (100, "validation", 4.5),
        (100, "BLEU", 2),
        (100, "chrF", 1),
    ]


def test_a_validation_has_its_samples_and_attention(run: Path):
    _write_samples(
        run,
        (500, [("a", "A", "x"), (ODD, ODD, ODD)]),
        (1000, [("a", "A", "x"), (ODD, ODD, "")]),
        (12500, [("a", "A", "y")]),
    )
    (run / "attention.jsonl").write_text('{"step": 500, "layers": []}\n{"step": 1000, "la')
    assert read_run(run).validations == [
        {
            "step": 500,
            "samples": [["a", "A", "x"], [ODD, ODD, ODD]],
            "attention": {"step": 500, "layers": []},
        },
        {"step": 1000, "samples": [["a", "A", "x"], [ODD, ODD, ""]], "attention": None},
        {"step": 12500, "samples": [["a", "A", "y"]], "attention": None},
    ]


def test_a_file_that_no_run_writes_is_not_read(run: Path):
    with (run / "samples.md").open("wb") as file:
        file.truncate(21 * 2**20)
    with pytest.raises(HubNMTError, match="larger than the limit of 20 MiB"):
        read_run(run)


def test_a_model_has_the_record_of_its_run_or_its_own(run: Path):
    assert find_run(run / "best") == run
    assert find_run(run / "other") is None
    (run / "other").mkdir()
    (run / "other" / "metrics.jsonl").touch()
    assert find_run(run / "other") == run / "other"


CARD = "# A model\n\n## Training\n\n- started from: an earlier model\n- seed: 4\n"


def test_the_start_is_that_of_the_card_of_a_model_or_of_the_best_one_of_a_run(run: Path):
    assert read_run(run).started_from == ""
    (run / "best" / "README.md").write_text(CARD)
    for folder in (run, run / "best"):
        assert read_run(folder).started_from == "an earlier model"


@pytest.mark.parametrize("folder", bundled_models().values(), ids=lambda folder: folder.name)
def test_every_bundled_model_has_its_record(folder: Path):
    found = read_run(folder)
    assert {name for _, name, _ in found.points} == {"training", "validation", "BLEU", "chrF"}
    validated = [each["step"] for each in found.validations]
    last = max(step for step, _, _ in found.points)
    assert validated[-1] - validated[0] > 0.9 * last  # from the start of the stage to its end
    assert all(len(each["samples"]) > 4 for each in found.validations)

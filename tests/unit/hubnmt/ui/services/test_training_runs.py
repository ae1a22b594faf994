import json
from pathlib import Path

import pytest

from hubnmt.checkpoint.card import escape_cell
from hubnmt.errors import InputError
from hubnmt.ui.services import training_runs
from hubnmt.ui.services.training_runs import find_run, read_run

ODD = r"a | b * _c_ [d] \ <b>&amp; `e`"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    (folder / "best").mkdir(parents=True)
    records = [
        {"step": 50, "kind": "train", "loss": 8.5, "lr": 0.1},
        {"step": 100, "kind": "train", "loss": None},
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
    assert read_run(run).curves == {
        "loss": ((50, 8.5),),
        "dev_loss": ((100, 4.5),),
        "bleu": ((100, 2),),
        "chrf": ((100, 1),),
    }


def test_samples_become_a_history_of_each_sentence(run: Path):
    _write_samples(
        run,
        (500, [("a", "A", "x"), (ODD, ODD, ODD)]),
        (1000, [("a", "A", "x"), (ODD, ODD, "")]),
        (12500, [("a", "A", "y")]),
    )
    first, second = read_run(run).samples
    assert (first.src, first.reference) == ("a", "A")
    assert first.translations == ((500, "x"), (12500, "y"))
    assert (second.src, second.reference) == (ODD, ODD)
    assert second.translations == ((500, ODD), (1000, ""))


def test_a_model_knows_its_run_by_the_folder_it_lies_in(run: Path, tmp_path: Path):
    assert find_run(run) == run
    assert find_run(run / "best") == run
    assert find_run(tmp_path) is None
    assert find_run(None) is None
    (run / "other").mkdir()
    assert find_run(run / "other") is None


def test_a_record_too_large_to_be_ours_is_not_read(run: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(training_runs, "MAX_FILE_MIB", 0)
    with pytest.raises(InputError, match=r"metrics\.jsonl is larger than the limit of 0 MiB"):
        read_run(run)

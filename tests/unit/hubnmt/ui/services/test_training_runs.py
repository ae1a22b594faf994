import json
from pathlib import Path

import pytest

from hubnmt.checkpoint.card import escape_cell
from hubnmt.checkpoint.files import bundled_models
from hubnmt.ui.services.training_runs import read_run

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
    found = read_run(run)
    assert found.sample_steps == (500, 1000, 12500)
    assert found.samples == [
        {"src": "a", "reference": "A", "translations": [[500, "x"], [12500, "y"]]},
        {"src": ODD, "reference": ODD, "translations": [[500, ODD], [1000, ""]]},
    ]


CARD = "# A model\n\n## Training\n\n- started from: an earlier model\n- seed: 4\n"


@pytest.mark.parametrize("text", ["[", "[]", "3", '{"run": 3}', "[" * 100_000])
def test_the_start_is_that_of_the_runs_recipe_or_of_the_card(run: Path, text: str):
    (run / "recipe.json").write_text(text)  # one that cannot be read says nothing
    assert read_run(run).started_from == ""
    (run / "README.md").write_text(CARD)
    assert read_run(run).started_from == "an earlier model"
    (run / "recipe.json").write_text('{"run": {"pretrained": "de-en"}}')
    assert read_run(run).started_from == "de-en"


@pytest.mark.parametrize("folder", bundled_models().values(), ids=lambda folder: folder.name)
def test_every_bundled_model_has_its_record(folder: Path):
    found = read_run(folder)
    assert {"loss", "dev_loss", "bleu", "chrf"} <= set(found.curves)
    assert len(found.sample_steps) > 3
    assert len(found.samples) > 5

import json
from pathlib import Path
from typing import Any

import pytest

from hubnmt.checkpoint.card import escape_cell
from hubnmt.checkpoint.description import bundled_models
from hubnmt.ui.services.training_runs import Recipe, read_run

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
        "lr": ((50, 0.1),),
    }


def test_samples_become_a_history_of_each_sentence(run: Path):
    _write_samples(
        run,
        (500, [("a", "A", "x"), (ODD, ODD, ODD)]),
        (1000, [("a", "A", "x"), (ODD, ODD, "")]),
        (12500, [("a", "A", "y")]),
    )
    found = read_run(run)
    first, second = found.samples
    assert found.sample_steps == (500, 1000, 12500)
    assert (first.src, first.reference) == ("a", "A")
    assert first.translations == ((500, "x"), (12500, "y"))
    assert (second.src, second.reference) == (ODD, ODD)
    assert second.translations == ((500, ODD), (1000, ""))


CARD = """# A model

## Training

- started from: an earlier model
- seed: 4

```toml
[tokenizer]
vocab_size = 8017
[optimizer]
lr = 0.0008
schedule = "cosine"
warmup_steps = 60
label_smoothing = 0.1
```
"""


def test_the_recipe_is_that_of_the_run_or_of_the_card(run: Path):
    assert read_run(run).recipe is None
    (run / "README.md").write_text(CARD)
    expected = Recipe(
        label_smoothing=0.1,
        vocab_size=8017,
        schedule="cosine",
        lr=0.0008,
        warmup_steps=60,
        started_from="an earlier model",
    )
    assert read_run(run).recipe == expected
    recipe: dict[str, Any] = {
        "optimizer": {"label_smoothing": 0.2, "warmup_steps": None},
        "tokenizer": 3,
    }
    recipe["run"] = {"pretrained": "de-en"}
    (run / "recipe.json").write_text(json.dumps(recipe))
    assert read_run(run).recipe == Recipe(
        label_smoothing=0.2,
        vocab_size=None,
        schedule="",
        lr=None,
        warmup_steps=None,
        started_from="de-en",
    )


@pytest.mark.parametrize("text", ["[", "[]", "3", '{"optimizer": 3}', "[" * 100_000])
def test_a_recipe_that_cannot_be_read_says_nothing(run: Path, text: str):
    (run / "recipe.json").write_text(text)
    found = read_run(run).recipe
    assert found is None or found.label_smoothing is None
    (run / "recipe.json").unlink()
    (run / "README.md").write_text(CARD.replace("lr = 0.0008", text))
    assert read_run(run).recipe is None


@pytest.mark.parametrize("folder", bundled_models().values(), ids=lambda folder: folder.name)
def test_every_bundled_model_has_its_record(folder: Path):
    found = read_run(folder)
    assert found.recipe is not None
    assert found.recipe.label_smoothing == 0.1
    assert found.recipe.lr
    assert found.recipe.warmup_steps
    assert len(found.sample_steps) > 3
    assert len(found.samples) > 5

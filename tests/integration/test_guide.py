"""The recipe of the ten-minute guide trains, also on files of one's own.

That its other blocks say what they need, and that its links lead somewhere, is test_readme's.
"""

from pathlib import Path

from tests.integration.test_readme import find_snippets
from training.config.recipe import load_recipe
from training.train import run

SNIPPETS = find_snippets("training/README.md")
(RECIPE,) = [snippet for snippet in SNIPPETS if snippet.note == "recipe"]


def test_the_recipe_trains(repo: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "cy-en.toml"
    recipe.write_text(RECIPE.text, encoding="utf-8")
    assert load_recipe(recipe, []).data.config == "cy-en"
    pair = ",".join(str(repo / "tests" / "fixtures" / f"captions.{side}") for side in ("de", "en"))
    settings = {
        "run.folder": tmp_path / "runs",
        "run.max_steps": 2,
        "run.eval_every": 2,
        "run.device": "cpu",
        "data.src_lang": "de",  # no Welsh among the fixtures
        "data.train": pair,
        "data.valid": pair,
        "data.valid_limit": 4,
        "data.drop_held_out": "false",
        "tokenizer.vocab_size": 400,
        "optimizer.batch_tokens": 512,
        "decoding.max_new_tokens": 4,
    }
    overrides = [f"{name}={value}" for name, value in settings.items()]
    done = run(recipe, overrides=overrides, resume=None)
    assert (done.folder / "best" / "model.safetensors").is_file()
    assert "card" in (done.folder / "recipe.json").read_text(encoding="utf-8")

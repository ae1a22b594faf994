"""Preparation: what is learned from which texts, what is stored, and a cache of whole entries."""

from pathlib import Path

import pytest

from hubnmt.errors import InputError
from training.config.recipe import Recipe, load_recipe
from training.data.prepare import cached, prepare_data


@pytest.fixture
def recipe(farm_recipe: Path, farm_options, tmp_path: Path) -> Recipe:
    return load_recipe(farm_recipe, farm_options(tmp_path))


def test_the_vocabulary_is_learned_from_the_training_texts_alone(
    recipe: Recipe, farm_recipe: Path, farm_options, tmp_path: Path
) -> None:
    strange = tmp_path / "strange.txt"
    strange.write_text("qxqxqx qxqxqx\n" * 50, encoding="utf-8")
    overrides = farm_options(tmp_path, f"data.valid={strange},{strange}")
    with_strange = prepare_data(load_recipe(farm_recipe, overrides), None)
    text = "Hunde qxqxqx 12"
    plain = prepare_data(recipe, None).tokenizers.src
    assert with_strange.tokenizers.src.encode(text) == plain.encode(text)
    assert len(plain.encode("qxqxqx")) > 4


@pytest.mark.parametrize("joint", [True, False])
def test_what_is_saved_is_what_a_resumed_run_loads(
    joint: bool, farm_recipe: Path, farm_options, tmp_path: Path
) -> None:
    more = [] if joint else ["tokenizer.joint=false", "model.share_embeddings=false"]
    recipe = load_recipe(farm_recipe, farm_options(tmp_path, *more))
    first = prepare_data(recipe, None)
    first.save(tmp_path)
    again = prepare_data(recipe, tmp_path)
    assert list(again.train) == list(first.train)
    assert (again.tokenizers.src is again.tokenizers.tgt) == joint
    assert (tmp_path / "cleaning.json").exists()


def write_hello(folder: Path) -> None:
    (folder / "hello.txt").write_text("hello", encoding="utf-8")


def test_a_build_that_fails_leaves_nothing(recipe: Recipe, tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        write_hello(folder)
        raise InputError("line 3 is odd")

    with pytest.raises(InputError, match="line 3 is odd"):
        cached(recipe, "key", fail)
    assert list((tmp_path / ".cache").iterdir()) == []
    assert (cached(recipe, "key", write_hello) / "hello.txt").exists()

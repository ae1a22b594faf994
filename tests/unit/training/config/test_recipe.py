"""Recipes: read, overridden, and refused with every mistake named at once."""

from typing import Any

import pytest

from hubnmt.errors import ConfigError
from training.config.recipe import Recipe, apply_override, load_recipe, parse_recipe

MINIMAL: dict[str, Any] = {
    "run": {"name": "test"},
    "data": {"src_lang": "de", "tgt_lang": "en", "dataset": "user/name"},
}


def parse(**sections: Any) -> Recipe:
    """Parse the minimal recipe with some keys of its sections changed."""
    tables = {
        name: MINIMAL.get(name, {}) | sections.get(name, {}) for name in {*MINIMAL, *sections}
    }
    return parse_recipe(tables, where="recipe.toml")


def override(*overrides: str) -> Recipe:
    """Parse the minimal recipe after `--set`."""
    tables = {name: dict(values) for name, values in MINIMAL.items()}
    for each in overrides:
        apply_override(tables, each)
    return parse_recipe(tables, where="recipe.toml")


@pytest.mark.parametrize(
    ("text", "section", "key", "value"),
    [
        ("run.max_minutes=1.5", "run", "max_minutes", 1.5),
        ("optimizer.lr=5e-3", "optimizer", "lr", 0.005),
        ("tokenizer.joint=true", "tokenizer", "joint", True),
        ('run.device="cpu"', "run", "device", "cpu"),
        (" run.name = my run ", "run", "name", "my run"),
        ("data.train=a.de,b.en", "data", "train", ("a.de", "b.en")),
        ('data.train=["a,b.de", "c.en"]', "data", "train", ("a,b.de", "c.en")),
        ("data.train=", "data", "train", ()),
        ('data.train=2016,"a.en"', "data", "train", ("2016", "a.en")),
        ("card.title=Grüße, a = b", "card", "title", "Grüße, a = b"),
    ],
)
def test_set_gives_a_known_key_a_value_of_its_type(
    text: str, section: str, key: str, value: Any
) -> None:
    result = getattr(getattr(override(text), section), key)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize("text", ["run.seed", "seed=3", "run=3", "=", ".=1", "run.=1", ""])
def test_set_that_does_not_read_like_one_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"must have the form section\.key=value"):
        override(text)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (
            {"run": {"dtype": "half"}},
            r"dtype = 'half' must be 'auto' or 'bfloat16' or 'float32'",
        ),
        ({"model": {"src_vocab_size": 9}}, r"src_vocab_size is determined by the run; remove it"),
        ({"optimizer": {"label_smoothing": 1.0}}, r"label_smoothing = 1\.0"),
        ({"model": {"d_model": 10, "n_heads": 3}}, r"d_model = 10 must be a multiple of n_heads"),
        ({"optimizer": {"schedule": "cosine"}}, r"schedule = 'cosine' requires decay_steps"),
        ({"data": {"dataset": None}}, r"train is empty and dataset is not set.*valid is empty"),
        ({"data": {"train": ["a.de"]}}, r"train: a\.de has no matching translation file"),
        ({"data": {"corpora": {"main": {"dataset": "x"}}}}, r"corpora\.main is reserved"),
        ({"data": {"corpora": {"x": {}}}}, r"corpora\.x: set files or a Hub dataset"),
        (
            {"data": {"corpora": {"x": {"file": ["a.tsv"]}}}},
            r"corpora\.x: unknown key 'file' \(did you mean 'files'\?",
        ),
        (
            {"data": {"corpora": {"x": {"dataset": "x", "weight": -1.0}}}},
            r"corpora\.x: weight = -1\.0 must be above 0",
        ),
        *(
            ({"run": {"name": name}}, r"is not a valid folder name in runs: choose a word")
            for name in ("../../x", "/tmp/x", "..", "", "a\\b", "C:x", "a\0b", "a\n")
        ),
    ],
    ids=str,
)
def test_a_mistake_is_named_with_its_remedy(sections: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        parse(**sections)
    assert str(caught.value).startswith("recipe.toml: ")
    assert "\n" not in str(caught.value)


def test_mistakes_of_all_sections_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(
            run={"max_step": 1, "seed": "one"},
            data={"max_tokens": 0},
            optimizer={"lr": -1.0, "accumulate": 0},
            model={"d_modell": 1, "n_heads": "4"},
            modle={},
        )
    for word in ("max_step'", "seed", "max_tokens", "lr = -1", "accumulate", "d_modell", "n_heads"):
        assert word in str(caught.value)
    assert "'modle'" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "n_sets"),
    [
        ({}, 1),
        ({"test_split": "test"}, 2),
        ({"test": ("t.de", "t.en")}, 2),
        # Local training files must not bring the Hub back in for the test split.
        ({"test_split": "test", "train": ("t.de", "t.en")}, 1),
    ],
)
def test_a_test_set_is_there_only_if_it_is_named(changes: dict[str, Any], n_sets: int) -> None:
    assert len(parse(data=changes).data.held_out_corpora()) == n_sets


def test_removed_settings_are_accepted_at_their_defaults_and_else_named() -> None:
    removed = {
        "optimizer": {"method": "adamw", "r_drop": 0.0, "betas": [0.9, 0.98]},
        "run": {"judged": "average", "average_last": 5, "ema_decay": 0.999, "compile": False},
        "log": {"hook": None, "project": "hubnmt"},
    }
    tables = {name: MINIMAL.get(name, {}) | values for name, values in removed.items()}
    assert load_recipe({**MINIMAL, **tables}).run.average_last == 5
    assert load_recipe({**MINIMAL, **tables}, ["run.judged=raw"]).run.average_last == 1
    with pytest.raises(
        ConfigError, match=r"run\.metric is no longer a setting.*log\.hook"
    ) as caught:
        load_recipe(MINIMAL, ["run.metric=bleu", "log.hook=x"])
    assert "\n" not in str(caught.value)


def test_a_pretrained_model_completes_a_recipe() -> None:
    recipe = {**MINIMAL, "run": {"name": "test", "pretrained": "de-en"}}
    given = {"model": {"d_model": 12, "n_heads": 3}, "tokenizer": {"vocab_size": 400}}
    config = load_recipe(recipe, inherited=given)
    assert (config.model["d_model"], config.tokenizer.vocab_size) == (12, 400)

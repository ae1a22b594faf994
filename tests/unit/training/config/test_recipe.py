"""Recipes: read, overridden, and refused with every mistake named at once."""

from typing import Any

import pytest

from hubnmt.errors import ConfigError
from training.config.recipe import RunConfig, apply_override, load_recipe, parse_recipe

MINIMAL: dict[str, Any] = {
    "run": {"name": "test"},
    "data": {"src_lang": "de", "tgt_lang": "en", "dataset": "user/name"},
}


def parse(**sections: Any) -> RunConfig:
    """Parse the minimal recipe with some keys of its sections changed."""
    tables = {
        name: MINIMAL.get(name, {}) | sections.get(name, {}) for name in {*MINIMAL, *sections}
    }
    return parse_recipe(tables, where="recipe.toml")


def override(*overrides: str) -> RunConfig:
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
        ({"run": {"max_step": 5}}, r"\[run\]: unknown key 'max_step' \(did you mean 'max_steps'\?"),
        ({"model": {"d_modell": 5}}, r"\[model\] unknown key 'd_modell' \(did you mean 'd_model'"),
        ({"optimiser": {"lr": 1}}, r"unknown key 'optimiser' \(did you mean 'optimizer'\?"),
        (
            {"run": {"dtype": "half"}},
            r"dtype = 'half' must be 'auto' or 'bfloat16' or 'float16' or 'float32'",
        ),
        ({"model": {"src_vocab_size": 9}}, r"src_vocab_size is determined by the run; remove it"),
        ({"data": {"src_lang": None}}, r"src_lang = None must be str"),
        ({"optimizer": {"label_smoothing": 1.0}}, r"label_smoothing = 1\.0 not in \[0, 1\)"),
        ({"model": {"d_model": 10, "n_heads": 3}}, r"d_model = 10 must be a multiple of n_heads"),
        ({"optimizer": {"schedule": "cosine"}}, r"schedule = 'cosine' requires decay_steps"),
        *(
            ({"run": {"name": name}}, r"is not a valid folder name in runs: choose a word")
            for name in ("../../x", "/tmp/x", "..", "", " ", "a\\b", "C:x", "a\0b", "a\n")
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


REMOVED = {
    "optimizer": {"method": "adamw", "r_drop": 0.0, "betas": [0.9, 0.98], "weight_decay": 0.0},
    "run": {"judged": "average", "average_last": 5, "ema_decay": 0.999},
    "log": {"hook": None, "project": "hubnmt"},
}


def test_a_recipe_with_removed_settings_at_their_defaults_is_accepted() -> None:
    tables = {name: MINIMAL.get(name, {}) | values for name, values in REMOVED.items()}
    config = load_recipe({**MINIMAL, **tables})
    assert config.run.average_last == 5
    assert load_recipe({**MINIMAL, **tables}, ["run.judged=raw"]).run.average_last == 1


@pytest.mark.parametrize(
    "setting",
    ["optimizer.weight_decay=0.1", "log.hook=x"],
)
def test_a_removed_setting_with_another_value_is_named_in_one_line(setting: str) -> None:
    name = setting.partition("=")[0]
    with pytest.raises(ConfigError, match=rf"{name} is no longer a setting") as caught:
        load_recipe(MINIMAL, [setting])
    assert "\n" not in str(caught.value)

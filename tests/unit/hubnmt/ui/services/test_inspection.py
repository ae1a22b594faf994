"""Inspection and steering of a sentence, with a tiny random model."""

from pathlib import Path
from typing import Any

import pytest

from hubnmt.translator import Translator
from hubnmt.ui.services.inspection import ask, explore, steer
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.subject import page_state

SRC = "Ein Hund, rennt."


@pytest.fixture
def registry(random_model: Translator, tmp_path: Path) -> ModelRegistry:
    return ModelRegistry(lambda _: random_model, {"tiny": tmp_path})


@pytest.fixture
def value(random_model: Translator) -> dict[str, Any]:
    """What the page keeps of a translation."""
    return page_state(SRC, "", random_model.translate(SRC, max_new_tokens=6), random_model)


@pytest.mark.parametrize(
    "steering", [None, {}, {"words": []}, {"words": [{"at": 0}], "place": 5}, {"place": 0}, []]
)
def test_a_word_that_is_not_there_is_a_sentence(
    registry: ModelRegistry, value: dict[str, Any], steering: Any
):
    for answer in (ask(registry, value, steering), steer(registry, value, steering)[-1]):
        assert answer["message"].startswith("Invalid word position")


@pytest.mark.parametrize("forged", [{"model": "../secret"}, {"model": 3}, {"sentence": 7}])
def test_a_forged_page_is_a_sentence_everywhere(
    registry: ModelRegistry, value: dict[str, Any], forged: dict[str, Any]
):
    value |= forged
    figure, _ = explore(registry, value)
    assert figure is not None
    drawn = [
        figure,
        ask(registry, value, {}),
        steer(registry, value, {})[-1],
    ]
    assert all(each["message"].endswith(".") for each in drawn)


def test_an_alternative_that_was_cut_is_completed(
    registry: ModelRegistry, value: dict[str, Any], random_model: Translator
):
    choice = {"text": "A dog", "is_whole": False}
    steering = {"words": [{"at": 0}], "place": 0, "choices": [choice], "choice": 0}
    options: Any = {"beam_size": 2, "max_new_tokens": 3}
    expected = random_model.translate(SRC, split=False, prefix="A dog", n_best=1, **options)
    text, *_ = steer(registry, value, steering, **options, n_best=2, sample=True, top_k=2, seed=1)
    assert text == expected.text
    assert text.startswith("A dog")
    whole, *_ = steer(registry, value, steering | {"choices": [choice | {"is_whole": True}]})
    assert whole == "A dog"

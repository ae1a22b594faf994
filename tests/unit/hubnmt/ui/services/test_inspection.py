"""Inspection and steering of a sentence, with a tiny random model."""

from pathlib import Path
from typing import Any

import pytest

from hubnmt.translator import Translator
from hubnmt.ui.services import decoding_controls
from hubnmt.ui.services.inspection import Inspector
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.translate import Handlers, PageTranslation

SRC = "Ein Hund, rennt."


@pytest.fixture
def handlers(random_model: Translator, tmp_path: Path) -> Handlers:
    return Handlers(ModelRegistry(lambda _: random_model, {"tiny": tmp_path}))


@pytest.fixture
def inspector(handlers: Handlers) -> Inspector:
    return Inspector(handlers.registry)


@pytest.fixture
def value(handlers: Handlers) -> dict[str, Any]:
    return _translate(handlers, SRC)


def _translate(handlers: Handlers, text: str) -> dict[str, Any]:
    values = decoding_controls.control_values(handlers.choose("").decoding) | {"max_new_tokens": 6}
    *_, answer = handlers.translate_page(
        text, "", **decoding_controls.read_options([*values.values()])
    )
    assert isinstance(answer, PageTranslation)
    return answer.alternatives


@pytest.mark.parametrize(
    "steering", [None, {}, {"words": []}, {"words": [{"at": 0}], "place": 5}, {"place": 0}, []]
)
def test_a_word_that_is_not_there_is_a_sentence(
    inspector: Inspector, value: dict[str, Any], steering: Any
):
    for call in (inspector.ask, lambda *asked: inspector.steer(*asked)[-1]):
        assert call(value, steering)["message"].startswith("Invalid word position")


@pytest.mark.parametrize("forged", [{"model": "../secret"}, {"model": 3}, {"sentence": 7}])
def test_a_forged_page_is_a_sentence_everywhere(
    inspector: Inspector, value: dict[str, Any], forged: dict[str, Any]
):
    value |= forged
    figure, _ = inspector.explore(value)
    assert figure is not None
    drawn = [
        figure,
        inspector.ask(value, {}),
        inspector.steer(value, {})[-1],
    ]
    assert all(each["message"].endswith(".") for each in drawn)


def test_an_alternative_that_was_cut_is_completed(
    inspector: Inspector, value: dict[str, Any], random_model: Translator
):
    choice = {"text": "A dog", "is_whole": False}
    steering = {"words": [{"at": 0}], "place": 0, "choices": [choice], "choice": 0}
    options: Any = {"beam_size": 2, "max_new_tokens": 3}
    expected = random_model.translate(SRC, split=False, prefix="A dog", n_best=1, **options)
    text, *_ = inspector.steer(value, steering, **options, n_best=2, sample=True, top_k=2, seed=1)
    assert text == expected.text
    assert text.startswith("A dog")
    whole, *_ = inspector.steer(value, steering | {"choices": [choice | {"is_whole": True}]})
    assert whole == "A dog"

from typing import Any

import pytest

from hubnmt.errors import ConfigError, InputError
from hubnmt.ui.services import decoding_controls
from hubnmt.ui.services.limits import N_TOGETHER
from hubnmt.ui.services.translate import Handlers, PageTranslation

TEXT = "ein hund rennt im schnee"


def _translate(
    handlers: Handlers, text: str = TEXT, model: str = "", **changes: Any
) -> PageTranslation:
    """Translate on the page with the model's own options but for some changes."""
    values = decoding_controls.control_values(handlers.choose(model).decoding) | changes
    *_, answer = handlers.translate_page(
        text, model, **decoding_controls.read_options([*values.values()])
    )
    assert isinstance(answer, PageTranslation)
    return answer


def test_the_page_gets_text_timing_and_alternatives(handlers: Handlers):
    timed, alternatives, _ = _translate(handlers, model="second", length_penalty=0.5, n_best=2)
    text = timed.translation.text
    assert text == TEXT.upper()
    assert timed.seconds > 0
    assert alternatives["src"] == TEXT
    assert alternatives["model"] == "second"
    assert alternatives["sentences"] == [[0, len(TEXT)]]
    candidates = [(c["text"], c["rows"]) for c in alternatives["candidates"]]
    assert candidates == [(text, [[7, 8]]), (text + "!", [[7, 9]])]
    assert handlers.registry.get("second").asked["length_penalty"] == 0.5


def test_refused_options_are_refused_before_anything_is_shown(handlers: Handlers):
    with pytest.raises(ConfigError, match="n_best = 9"):
        _translate(handlers, n_best=9)
    with pytest.raises(InputError):
        _translate(handlers, "")


@pytest.mark.parametrize(("n_words", "n_together"), [(1, 1), (600, N_TOGETHER)])
def test_sentences_of_a_long_text_are_searched_side_by_side(
    n_words: int, n_together: int, handlers: Handlers
):
    list(handlers.translate_page("ja " * n_words, ""))
    assert handlers.registry.get("").n_together == n_together  # type: ignore[attr-defined]

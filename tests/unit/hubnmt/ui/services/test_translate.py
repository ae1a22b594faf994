from typing import Any

import pytest

from hubnmt.errors import ConfigError, InputError
from hubnmt.ui.services import decoding_controls
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
    timed, state, _ = _translate(handlers, model="second", length_penalty=0.5, n_best=2)
    expected = handlers.registry.get("").translate(TEXT, length_penalty=0.5, n_best=2)
    assert timed.translation.text == expected.text
    assert timed.seconds > 0
    assert (state["src"], state["model"]) == (TEXT, "second")
    assert state["sentences"] == [[0, len(TEXT)]]
    candidates = [(made["text"], made["rows"]) for made in state["candidates"]]
    assert candidates == [(made.text, [[*made.tgt_ids[0]]]) for made in expected.n_best]


def test_refused_options_are_refused_before_anything_is_shown(handlers: Handlers):
    with pytest.raises(ConfigError, match="n_best = 9"):
        _translate(handlers, n_best=9)
    with pytest.raises(InputError):
        _translate(handlers, "")

import dataclasses
from collections.abc import Callable

import pytest

from hubnmt.errors import ConfigError, InputError, ModelNotFoundError
from hubnmt.ui.services import limits
from hubnmt.ui.services.compare import compare
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.translate import Handlers

TEXT = "ein hund rennt"


def test_both_sides_are_translated_and_their_differences_found(handlers: Handlers):
    first, second = compare(handlers, TEXT, ["", "second"], [{}, {"prefix": "AH "}])
    assert (first.model, second.model) == ("first", "second")
    assert first.timed.translation.text == "EIN HUND RENNT"
    assert [span for span in second.spans if span.is_different] == [("AH ", True)]
    assert not any(span.is_different for span in first.spans)


def test_what_cannot_be_scored_is_compared_all_the_same(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(limits, "MAX_SCORED_TOKENS", 2)
    first, _ = compare(handlers, TEXT, ["", ""], [{}, {}])
    assert first.scores == (None, None)


def test_what_is_refused_is_said(handlers: Handlers):
    for error, text, models, options in (
        (InputError, " ", ["", ""], [{}, {}]),
        (ModelNotFoundError, TEXT, ["", "no/such"], [{}, {}]),
        (ConfigError, TEXT, ["", ""], [{}, {"beam_size": 0}]),
    ):
        with pytest.raises(error):
            compare(handlers, text, models, options)


def test_models_of_different_pairs_are_not_compared(
    make_registry: Callable[..., ModelRegistry],
):
    registry = make_registry()
    other = registry.get("second")
    other.config = dataclasses.replace(other.config, src_lang="ml")
    with pytest.raises(InputError, match="A translates German to English and B Malayalam to"):
        compare(Handlers(registry), TEXT, ["first", "second"], [{}, {}])

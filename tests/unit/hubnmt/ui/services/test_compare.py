import dataclasses
from collections.abc import Callable

import pytest

from hubnmt.config import DecodingConfig
from hubnmt.errors import ConfigError, InputError, ModelNotFoundError
from hubnmt.ui.services import decoding_controls, limits
from hubnmt.ui.services.compare import compare, read_sides
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.translate import Handlers

TEXT = "ein hund rennt"


def test_both_sides_are_translated_and_their_differences_found(handlers: Handlers):
    first, second = compare(handlers, TEXT, ["", "second"], [{}, {"prefix": "AH "}])
    assert (first.model, second.model) == ("first", "second")
    assert first.timed.translation.text == "EIN HUND RENNT"
    assert [span for span in second.spans if span.is_different] == [("AH ", True)]
    assert not any(span.is_different for span in first.spans)


def test_each_translation_is_scored_under_both_models(handlers: Handlers):
    for side in compare(handlers, TEXT, ["first", "second"], [{}, {}]):
        scored = limits.score(handlers.registry.get(""), TEXT, side.timed.translation.text)
        assert side.scores == (scored, scored)


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


def test_the_panels_are_read_in_their_order():
    values = [
        decoding_controls.control_values(DecodingConfig(beam_size=n), preset).values()
        for n, preset in ((4, "Best"), (3, "Fast"))
    ]
    models, options = read_sides(["a", *values[0], "b", *values[1]])
    assert models == ["a", "b"]
    assert [each["beam_size"] for each in options] == [4, 1]

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hubnmt.checkpoint import StoredModel, save_model
from hubnmt.config import DecodingConfig
from hubnmt.errors import ConfigError, InputError, ModelNotFoundError
from hubnmt.model import Transformer
from hubnmt.tokenizer import Tokenizer
from hubnmt.translator import Translator
from hubnmt.ui.handlers import MAX_TEXT_CHARS, Handlers
from hubnmt.ui.registry import ModelRegistry

TEXT = "ein hund rennt im schnee"


def test_choosing_a_model_tells_its_facts_and_defaults(handlers: Handlers):
    chosen = handlers.choose("")
    assert chosen.facts.name == "first"
    assert chosen.facts.src_lang == "de"
    assert chosen.decoding.beam_size == 4


def test_the_page_gets_text_timing_and_alternatives(handlers: Handlers):
    notice, text, timing, alternatives = handlers.translate_page(TEXT, "second", 4, 0.5, 2)
    assert notice == ""
    assert text == TEXT.upper()
    assert "3 tokens" in timing
    assert alternatives["src"] == TEXT
    assert alternatives["model"] == "second"
    assert [c["text"] for c in alternatives["candidates"]] == [text, text + "!"]
    assert handlers.registry.get("second").asked["length_penalty"] == 0.5


def test_warnings_are_shown_escaped(handlers: Handlers):
    notice, *_ = handlers.translate_page("so long", "", 4, 1.0, 1)
    assert "&lt;b&gt;cut&lt;/b&gt;" in notice


def test_loading_is_timed_once(handlers: Handlers):
    assert handlers.translate_text(TEXT, "").load_seconds > 0
    assert handlers.translate_text(TEXT, "").load_seconds == 0


def test_options_not_given_are_left_to_the_model(handlers: Handlers):
    handlers.translate(TEXT, length_penalty=0.7)
    assert handlers.registry.get("").asked == {"length_penalty": 0.7}


def test_a_slider_may_say_5_as_5_point_0(handlers: Handlers):
    handlers.translate_page(TEXT, "", 5.0, 1, 2.0)
    asked = handlers.registry.get("").asked
    assert (asked["beam_size"], asked["n_best"]) == (5, 2)
    assert isinstance(asked["beam_size"], int)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"beam_size": 0}, "beam_size = 0"),
        ({"beam_size": "many"}, "beam_size = 'many'"),
        ({"beam_size": 2.5}, "beam_size = 2.5"),
        ({"beam_size": 2, "n_best": 3}, "n_best = 3"),
        ({"length_penalty": float("nan")}, "length_penalty = nan"),
    ],
)
def test_impossible_options_are_named(handlers: Handlers, options: dict[str, Any], named: str):
    with pytest.raises(ConfigError, match=named):
        handlers.translate(TEXT, **options)


@pytest.mark.parametrize("text", ["", " \n\t ", None, 3, ["a"], "x" * (MAX_TEXT_CHARS + 1)])
def test_what_is_no_text_to_translate_is_refused_by_all(handlers: Handlers, text: Any):
    for call in (handlers.translate, handlers.attention):
        with pytest.raises(InputError):
            call(text)


def test_an_unknown_model_is_refused(handlers: Handlers):
    with pytest.raises(ModelNotFoundError):
        handlers.translate(TEXT, "no-such-model")


def test_the_explorer_gets_the_selected_alternative(handlers: Handlers):
    *_, alternatives = handlers.translate_page(TEXT, "", 4, 1.0, 3)
    text, figure = handlers.show_alternative({**alternatives, "selected": 1})
    assert text == TEXT.upper() + "!"
    assert figure is not None
    assert "".join(figure["tgt"]) == f" {text}<eos>"
    assert figure["start"] == [1, 2]


def test_nothing_translated_is_nothing_to_explore(handlers: Handlers):
    assert handlers.explore(None) is None


def test_a_text_that_cannot_be_drawn_gives_a_sentence(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch
):
    *_, alternatives = handlers.translate_page(TEXT, "", 4, 1.0, 1)
    monkeypatch.setattr("hubnmt.ui.figures.MAX_WEIGHTS", 3)
    figure = handlers.explore(alternatives)
    assert figure is not None
    assert figure["message"].startswith("Too long to draw")


def test_what_is_too_long_to_draw_is_refused_before_the_model_runs(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(handlers.registry.get(""), "attend", None)
    with pytest.raises(InputError, match="too long to draw"):
        handlers.attention("a b c d " * 500)


def test_the_translation_to_explain_must_be_text(handlers: Handlers):
    with pytest.raises(InputError, match="not int"):
        handlers.attention(TEXT, translation=3)  # type: ignore[arg-type]


def test_a_real_model_fits_the_page(
    tiny_model: Transformer, tiny_tokenizer: Tokenizer, tmp_path: Path
):
    stored = StoredModel(
        model=tiny_model,
        src_tokenizer=tiny_tokenizer,
        tgt_tokenizer=tiny_tokenizer,
        decoding=DecodingConfig(beam_size=3),
    )
    save_model(tmp_path / "tiny", stored)
    handlers = Handlers(
        ModelRegistry(Translator.from_pretrained, {}, opening=str(tmp_path / "tiny"))
    )
    assert handlers.choose("").facts.size_mb > 0
    _, text, _, alternatives = handlers.translate_page("Ein Hund.", "", 3.0, 1, 2)
    assert len(alternatives["candidates"]) == 2
    figure = handlers.explore(alternatives)
    assert figure is not None
    assert figure["maps"]["cross"]["heads"] == 3
    assert figure["maps"]["encoder"]["layers"] == 1
    weights = handlers.attention("Ein Hund.", translation=text, layer=2, head=1)["weights"]
    assert (len(weights), len(weights[0])) == (len(figure["tgt"]), len(figure["src"]))


def test_the_endpoint_returns_text_first_and_plain_values(handlers: Handlers):
    text, details = handlers.translate(TEXT, n_best=2)
    assert text == TEXT.upper()
    assert details["model"] == "first"
    assert [c["score"] for c in details["n_best"]] == [-0.5, -1.5]
    assert details["tgt_log_probs"] == [-0.1, -0.2, -0.3]
    assert details["warnings"] == []
    assert details["seconds"] >= 0


def test_attention_averages_or_picks(handlers: Handlers):
    cross = np.asarray(handlers.registry.get("").attend(TEXT).cross)
    picked = handlers.attention(TEXT, layer=2, head=3)
    np.testing.assert_allclose(picked["weights"], cross[1, 2], atol=1e-4)
    averaged = handlers.attention(TEXT)
    np.testing.assert_allclose(averaged["weights"], cross.mean((0, 1)), atol=1e-4)
    half = handlers.attention(TEXT, layer=1)
    np.testing.assert_allclose(half["weights"], cross[0].mean(0), atol=1e-4)
    np.testing.assert_allclose(np.sum(averaged["weights"], axis=-1), 1, atol=1e-3)


@pytest.mark.parametrize("wrong", [{"layer": 3}, {"head": -1}, {"head": 4}, {"layer": True}])
def test_a_layer_or_head_that_is_not_there_is_named(handlers: Handlers, wrong: dict[str, Any]):
    with pytest.raises(InputError, match=r"must be 0 \(average\) to"):
        handlers.attention(TEXT, **wrong)


def test_models_are_listed_without_opening_them(make_registry: Callable[..., ModelRegistry]):
    registry = make_registry(opening="second")
    assert Handlers(registry).models() == [
        {"name": "second", "opening": True},
        {"name": "first", "opening": False},
    ]
    assert not registry.is_open("second")

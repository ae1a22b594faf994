from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hubnmt.config import DecodingConfig
from hubnmt.errors import ConfigError, InputError, ModelNotFoundError
from hubnmt.ui.services.api import Endpoints
from hubnmt.ui.services.limits import MAX_TEXT_CHARS
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.translate import Handlers

TEXT = "ein hund rennt im schnee"


def test_options_not_given_are_left_to_the_model(endpoints: Endpoints):
    endpoints.translate(TEXT, length_penalty=0.7)
    assert endpoints.handlers.registry.get("").asked == {"length_penalty": 0.7}


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
def test_impossible_options_are_named(endpoints: Endpoints, options: dict[str, Any], named: str):
    with pytest.raises(ConfigError, match=named):
        endpoints.translate(TEXT, **options)


@pytest.mark.parametrize("text", ["", " \n\t ", None, 3, ["a"], "x" * (MAX_TEXT_CHARS + 1)])
def test_what_is_no_text_to_translate_is_refused_by_all(endpoints: Endpoints, text: Any):
    for call in (endpoints.translate, endpoints.attention):
        with pytest.raises(InputError):
            call(text)


def test_an_unknown_model_is_refused(endpoints: Endpoints):
    with pytest.raises(ModelNotFoundError):
        endpoints.translate(TEXT, "no-such-model")


def test_the_endpoint_returns_text_first_and_plain_values(endpoints: Endpoints):
    text, details = endpoints.translate(TEXT, n_best=2)
    assert text == TEXT.upper()
    assert details["model"] == "first"
    assert [c["score"] for c in details["n_best"]] == [-0.5, -1.5]
    assert details["tgt_log_probs"] == [-0.1, -0.2, -0.3]
    assert details["warnings"] == []
    assert details["seconds"] >= 0


def test_attention_averages_or_picks(endpoints: Endpoints):
    cross = np.asarray(endpoints.handlers.registry.get("").attend(TEXT).cross)
    picked = endpoints.attention(TEXT, layer=2, head=3)
    np.testing.assert_allclose(picked["weights"], cross[1, 2], atol=1e-4)
    averaged = endpoints.attention(TEXT)
    np.testing.assert_allclose(averaged["weights"], cross.mean((0, 1)), atol=1e-4)
    half = endpoints.attention(TEXT, layer=1)
    np.testing.assert_allclose(half["weights"], cross[0].mean(0), atol=1e-4)
    np.testing.assert_allclose(np.sum(averaged["weights"], axis=-1), 1, atol=1e-3)


def test_attention_may_be_asked_for_by_words(endpoints: Endpoints):
    pieces, words = endpoints.attention(TEXT), endpoints.attention(TEXT, unit="words")
    assert [word.strip() for word in words["src_tokens"]] == [*TEXT.split(), "<eos>"]
    assert len(words["weights"]) < len(pieces["weights"])
    np.testing.assert_allclose(np.sum(words["weights"], axis=-1), 1, atol=1e-3)
    assert words["links"] == pieces["links"]
    links = pieces["links"]
    assert links
    assert {link["src"] for link in links} <= set(TEXT.split())
    assert {link["tgt"] for link in links} <= set(TEXT.upper().split())


def test_an_unknown_unit_is_named(endpoints: Endpoints):
    with pytest.raises(InputError, match="unit = 'lines' must be pieces, characters, words"):
        endpoints.attention(TEXT, unit="lines")


@pytest.mark.parametrize("wrong", [{"layer": 3}, {"head": -1}, {"head": 4}, {"layer": True}])
def test_a_layer_or_head_that_is_not_there_is_named(endpoints: Endpoints, wrong: dict[str, Any]):
    with pytest.raises(InputError, match=r"must be 0 \(average\) to"):
        endpoints.attention(TEXT, **wrong)


def test_models_are_listed_without_opening_them(make_registry: Callable[..., ModelRegistry]):
    registry = make_registry(opening="second")
    listed = Endpoints(Handlers(registry)).models()
    assert [(each["name"], each["opening"]) for each in listed] == [
        ("second", True),
        ("first", False),
    ]
    assert not registry.is_open("second")


def test_every_decoding_option_reaches_the_model(endpoints: Endpoints):
    options = {
        "beam_size": 3,
        "length_penalty": 0.5,
        "n_best": 2,
        "sample": True,
        "temperature": 0.7,
        "top_k": 9,
        "top_p": 0.8,
        "seed": 5,
        "no_repeat_ngram_size": 3,
        "repetition_penalty": 1.2,
        "max_new_tokens": 40,
        "prefix": "A",
    }
    assert sorted(options) == sorted({"prefix", *DecodingConfig().to_dict()})
    endpoints.translate(TEXT, **options)
    assert endpoints.handlers.registry.get("").asked == options


def test_a_pair_is_scored_token_by_token(endpoints: Endpoints):
    scored = endpoints.score(TEXT, "the dog")
    assert "".join(scored["tgt_tokens"]) == " the dog<eos>"
    assert scored["log_prob"] == pytest.approx(sum(scored["tgt_log_probs"]))
    assert scored["perplexity"] > 1

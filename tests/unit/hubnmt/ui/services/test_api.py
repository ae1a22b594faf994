from typing import Any

import numpy as np
import pytest

from hubnmt.config import DecodingConfig
from hubnmt.errors import ConfigError, InputError
from hubnmt.ui.services.api import Endpoints

TEXT = "ein hund rennt im schnee"


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

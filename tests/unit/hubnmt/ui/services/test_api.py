from typing import Any

import numpy as np
import pytest

from hubnmt.config import DecodingConfig
from hubnmt.errors import InputError
from hubnmt.ui.services.api import Endpoints

TEXT = "Ein Hund rennt im Schneesturm."


def test_attention_may_be_asked_for_by_words(endpoints: Endpoints):
    pieces, words = endpoints.attention(TEXT), endpoints.attention(TEXT, unit="words")
    assert [word.strip() for word in words["src_tokens"]][:5] == TEXT.removesuffix(".").split()
    assert len(words["src_tokens"]) < len(pieces["src_tokens"])
    np.testing.assert_allclose(np.sum(words["weights"], axis=-1), 1, atol=1e-3)
    assert words["links"] == pieces["links"] != []


@pytest.mark.parametrize("wrong", [{"layer": 99}, {"head": -1}, {"head": 99}, {"layer": True}])
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
    text, details = endpoints.translate(TEXT, **options)
    expected = endpoints.registry.get("").translate(TEXT, **options)
    assert text == expected.text
    assert [made["text"] for made in details["n_best"]] == [made.text for made in expected.n_best]

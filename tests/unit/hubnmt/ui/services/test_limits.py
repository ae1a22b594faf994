from typing import Any

import pytest

from hubnmt.config import DecodingConfig
from hubnmt.errors import InputError
from hubnmt.ui.services import limits
from hubnmt.ui.services.api import Endpoints
from hubnmt.ui.services.registry import ModelRegistry

TEXT = "ein hund rennt im schnee"


@pytest.mark.parametrize(
    "text", ["", " \n\t ", None, 3, ["a"], "a \ud800 b", "x" * (limits.MAX_TEXT_CHARS + 1)]
)
def test_what_is_no_text_or_too_much_is_refused(registry: ModelRegistry, text: Any):
    endpoints = Endpoints(registry)
    for call in (
        lambda: endpoints.translate(text),
        lambda: endpoints.attention(text, "a"),
        lambda: endpoints.score(text, "a"),
        lambda: endpoints.score(TEXT, text),
    ):
        with pytest.raises(InputError):
            call()


@pytest.mark.parametrize(
    ("text", "options", "prefix", "said"),
    [
        (TEXT, {}, "a" * 301, "the forced prefix has 301 characters"),
        (TEXT, {}, "a\nb", "must be one line"),
        (TEXT, {}, 5, "must be a string"),
        (TEXT, {"max_new_tokens": 513}, "", "exceeds this page's limit of 512"),
        ("ab " * 3000, {"beam_size": 32}, "", "the limit is 5,000; split"),
        ("ab " * 3000, {"sample": True, "n_best": 32}, "", "the limit is 5,000; split"),
    ],
)
def test_a_search_is_bounded(text: str, options: dict[str, Any], prefix: Any, said: str):
    with pytest.raises(InputError, match=said):
        limits.check_search(text, DecodingConfig(**options), prefix)


@pytest.mark.parametrize("options", [{}, {"beam_size": 16}, {"max_new_tokens": 512}])
def test_the_longest_text_passes(options: dict[str, Any]):
    limits.check_search("x" * limits.MAX_TEXT_CHARS, DecodingConfig(**options), "a" * 300)


def test_a_pair_too_long_to_score_is_refused(registry: ModelRegistry):
    with pytest.raises(InputError, match=r"too long to score: 1,[0-9]+ tokens; the limit is 1,000"):
        Endpoints(registry).score(TEXT, "x7 " * 600)


@pytest.mark.parametrize(
    ("rows", "beam_size", "said"),
    [
        (["a", "b" * 2_001], 4, "row 2 has 2,001 characters"),
        (["a", "b" * 2_000], 16, "row 2 has 2,000 characters; the limit is 1,250"),
        (["b" * 1_000] * 1_001, 4, "the column has 1,001,000 characters"),
    ],
)
def test_the_rows_of_a_file_are_bounded(rows: list[str], beam_size: int, said: str):
    with pytest.raises(InputError, match=said):
        limits.check_rows(rows, DecodingConfig(beam_size=beam_size))

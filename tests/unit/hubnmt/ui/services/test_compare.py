"""Two translations beside each other: their differences are whole words."""

import dataclasses
import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from hubnmt.errors import InputError
from hubnmt.ui.services.compare import compare, mark_differences
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.translate import Handlers


def test_no_character_is_lost_and_what_is_not_marked_is_shared():
    for seed, letters in itertools.product(range(25), (["a ", "b ", "c "], "ab ഒരു\n.,\u0d4d\t")):
        draw = random.Random(seed)
        first, second = ("".join(draw.choices(letters, k=draw.randrange(30))) for _ in "12")
        spans = mark_differences(first, second)
        assert ["".join(span.text for span in side) for side in spans] == [first, second]
        same = ["".join(span.text for span in side if not span.is_different) for side in spans]
        assert same[0] == same[1]


@pytest.mark.parametrize(
    ("first", "second", "marked"),
    [
        ("A dog.", "A dog.", [[], []]),
        ("A dog runs.", "A cat runs.", [["dog"], ["cat"]]),
        ("A dog runs.", "A dog runs!", [["."], ["!"]]),
        ("ഒരു നായ", "ഒരു പൂച്ച", [["നായ"], ["പൂച്ച"]]),
        ("", "A", [[], ["A"]]),
    ],
)
def test_differences_are_whole_words(first: str, second: str, marked: list[Any]):
    spans = mark_differences(first, second)
    assert [[s.text for s in side if s.is_different] for side in spans] == marked


TEXT = "ein hund rennt"


def test_models_of_different_pairs_are_not_compared(make_registry: Callable[..., ModelRegistry]):
    registry = make_registry()
    other = registry.get("second")
    other.config = dataclasses.replace(other.config, src_lang="ml")
    with pytest.raises(InputError, match="A translates German to English and B Malayalam to"):
        compare(Handlers(registry), TEXT, ["first", "second"], [{}, {}])


def test_each_side_says_its_options(handlers: Handlers):
    options = [{}, {"sample": True, "seed": 7, "top_p": 0.5, "prefix": "Oh"}]
    first, second = compare(handlers, TEXT, ["first", "first"], options)
    assert first.settings == "Beam size 4"
    assert second.settings == "Sampling, seed 7, top p 0.5, prefix “Oh”"

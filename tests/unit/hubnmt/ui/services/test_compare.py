"""Two translations beside each other: their differences are whole words."""

import dataclasses
import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from hubnmt.errors import InputError
from hubnmt.ui.services.compare import WORDS, compare, mark_differences
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.translate import Handlers


def test_no_character_is_lost_and_no_shared_word_overlooked():
    for seed, letters in itertools.product(range(25), (["a ", "b ", "c "], "ab ഒരു\n.,\u0d4d\t")):
        draw = random.Random(seed)
        first, second = ("".join(draw.choices(letters, k=draw.randrange(30))) for _ in "12")
        spans = mark_differences(first, second)
        assert ["".join(span.text for span in side) for side in spans] == [first, second]
        same = [[span.text for span in side if not span.is_different] for side in spans]
        assert same[0] == same[1]
        n_shared = sum(len(WORDS.findall(text)) for text in same[0])
        assert n_shared == _longest(WORDS.findall(first), WORDS.findall(second))


def _longest(first: Sequence[str], second: Sequence[str]) -> int:
    """Measure the longest common subsequence by its definition."""
    row = [0] * (len(second) + 1)
    for word in first:
        above = row
        row = [0]
        for n, other in enumerate(second, 1):
            row.append(above[n - 1] + 1 if word == other else max(above[n], row[-1]))
    return row[-1]


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

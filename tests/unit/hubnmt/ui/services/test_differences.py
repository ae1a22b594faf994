import random
import time
from collections.abc import Sequence
from typing import Any

import pytest

from hubnmt.ui.services.compare import MAX_WORDS, WORDS, mark_differences


@pytest.mark.parametrize("seed", range(50))
def test_no_character_of_either_text_is_lost(seed: int):
    draw = random.Random(seed)
    first, second = ("".join(draw.choices("ab ഒരു\n.,\u0d4d\t", k=draw.randrange(30))) for _ in "12")
    spans = mark_differences(first, second)
    assert ["".join(span.text for span in side) for side in spans] == [first, second]
    same = [[span.text for span in side if not span.is_different] for side in spans]
    assert same[0] == same[1]


@pytest.mark.parametrize("seed", range(50))
def test_no_two_shared_words_are_overlooked(seed: int):
    draw = random.Random(seed)
    first, second = (" ".join(draw.choices("abc", k=draw.randrange(1, 12))) for _ in "12")
    spans, _ = mark_differences(first, second)
    n_shared = sum(len(WORDS.findall(span.text)) for span in spans if not span.is_different)
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


def test_the_longest_texts_of_few_words_take_no_time():
    draw = random.Random(0)
    first, second = (" ".join(draw.choices(["Ja", "No"], k=MAX_WORDS // 2)) for _ in "12")
    start = time.process_time()
    spans, _ = mark_differences(first, second)
    assert time.process_time() - start < 0.5
    assert any(span.is_different for span in spans)


def test_what_is_longer_stays_unmarked():
    first, second = "a " * MAX_WORDS, "b " * MAX_WORDS
    assert mark_differences(first, second) == (((first, False),), ((second, False),))


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

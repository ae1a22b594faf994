"""What a translation copies becomes the same placeholder on both sides of a pair."""

import itertools
import random

import pytest

from training.data.placeholders import PLACEHOLDERS, find_spans, protect_pair, protect_spans


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("Run `pip install x` now.", ["`pip install x`"]),
        ("See https://example.org/a?b=1, or www.example.com.", None),
        ("Write to anna.b@example.co.uk.", ["anna.b@example.co.uk"]),
        ("Thanks @anna.b, #hello!", ["@anna.b", "#hello"]),
        ("Yes 👍🏽 👨‍👩‍👧 🇩🇪 ❤️!", ["👍🏽", "👨‍👩‍👧", "🇩🇪", "❤️"]),
        ("At 9:30 or 12:05:59.", ["9:30", "12:05:59"]),
        ("On 3.4.2020 and 2020-04-03.", ["3.4.2020", "2020-04-03"]),
        ("Flight LH456 from gate B-12.", ["LH456", "B-12"]),
        ("In 1984 he paid 1,250.50 or 12.5.", ["1984", "1,250.50", "12.5"]),
        ("12 men, 7 dogs, the 1990s, 100km, C# and USB.", []),
    ],
)
def test_spans_to_copy_are_found(text: str, spans: list[str] | None) -> None:
    expected = ["https://example.org/a?b=1", "www.example.com"] if spans is None else spans
    assert find_spans(text) == expected


def test_a_shared_span_is_the_same_placeholder_on_both_sides() -> None:
    src, tgt = protect_pair("LH456 um 12:30, LH456!", "LH456 at 12:30, LH456!", random.Random(1))
    first, second = src[0], src[5]
    assert {first, second} <= {*PLACEHOLDERS}
    assert first != second
    assert (src, tgt) == (f"{first} um {second}, {first}!", f"{first} at {second}, {first}!")


def test_a_span_that_is_not_equally_often_on_both_sides_stays() -> None:
    pair = ("Am 3.4.2020 und 1999 und 1999", "On 4/3/2020 and 1999")
    assert protect_pair(*pair, random.Random(1)) == pair


def test_a_span_inside_another_one_is_no_span() -> None:
    src, tgt = protect_pair("1234 und 12345", "1234 and 12345", random.Random(1))
    assert (len(src), len(tgt)) == (len("x und y"), len("x and y"))


def test_placeholders_of_the_text_are_not_used_again_and_the_rest_stays() -> None:
    numbers = [str(number) for number in range(100, 110)]
    text = " ".join([PLACEHOLDERS[0], *numbers])
    src, tgt = protect_pair(text, text, random.Random(1))
    assert src == tgt
    assert sorted(mark for mark in src if mark in PLACEHOLDERS) == [*PLACEHOLDERS]
    assert src.split()[-3:] == numbers[-3:]


def test_a_share_of_the_pairs_is_protected_alike_each_time() -> None:
    pairs = [(f"Zimmer {n}, bitte.", f"Room {n}, please.") for n in range(100, 1100)]
    changed = [protect_spans(*pair, share=0.5) for pair in pairs]
    assert changed == [protect_spans(*pair, share=0.5) for pair in pairs]
    is_other = [one != other for one, other in zip(pairs, changed, strict=True)]
    assert 400 < sum(is_other) < 600
    assert all(not src[7:10].isdigit() for src, _ in itertools.compress(changed, is_other))
    added = [src for src, tgt in changed if not src.endswith(".") and src[-1] == tgt[-1]]
    assert 1 <= len(added) <= 20
    assert [protect_spans(*pair, share=0.0) for pair in pairs] == pairs

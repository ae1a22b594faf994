"""Casual spelling, placeholders, and other names and numbers: alike on both sides of a pair."""

import operator
import random
import re
from collections.abc import Callable
from functools import partial

import pytest

from hubnmt.text.protected_spans import PLACEHOLDERS
from training.data.augmentation import (
    as_typed,
    exchange_names,
    protect_names,
    protect_pair,
    protect_spans,
)

Change = Callable[[str, str], tuple[str, str]]


def change(src: str, tgt: str, *, drop: float = 0.0, lower: float = 0.0) -> tuple[str, str]:
    return as_typed(src, tgt, drop_final_mark=drop, lowercase_src=lower)


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        (("Guten Morgen.", "Good morning."), ("Guten Morgen", "Good morning")),
        (("Wie geht's?", "How are you?!"), ("Wie geht's", "How are you")),
        (("Où vas-tu ?", "Where to?"), ("Où vas-tu", "Where to")),
        (("वह दौड़ता है।", "He runs."), ("वह दौड़ता है", "He runs")),
        (("Guten Morgen", "Good morning."), ("Guten Morgen", "Good morning.")),
        (("Er sagte: „Ja.“", "He said yes."), ("Er sagte: „Ja.“", "He said yes.")),
        (("?!", "?!"), ("?!", "?!")),
    ],
)
def test_a_final_mark_goes_from_both_sides_or_from_none(
    pair: tuple[str, str], expected: tuple[str, str]
) -> None:
    assert change(*pair, drop=1.0) == expected
    assert change(*pair) == pair


def test_a_shared_span_is_the_same_placeholder_on_both_sides() -> None:
    src, tgt = protect_pair("LH456 um 12:30, LH456!", "LH456 at 12:30, LH456!", random.Random(1))
    first, second = src[0], src[5]
    assert {first, second} <= {*PLACEHOLDERS}
    assert first != second
    assert (src, tgt) == (f"{first} um {second}, {first}!", f"{first} at {second}, {first}!")


def test_shared_names_become_placeholders() -> None:
    src, tgt = protect_names(
        "Anna Müller wohnt mit Paul in Wien.", "Anna Müller lives with Paul in Vienna.", share=1.0
    )
    first, second = src[0], src[12]
    assert {first, second} <= {*PLACEHOLDERS}
    assert (src, tgt) == (
        f"{first} wohnt mit {second} in Wien.",
        f"{first} lives with {second} in Vienna.",
    )
    same = ("Paul und Anna, Paul!", "Anna and Paul!")
    src, tgt = protect_names(*same, share=1.0)
    assert (src.count("Paul"), tgt.count("Paul"), src[9]) == (2, 1, tgt[0])
    assert protect_names(*same, share=0.0) == same


def exchange(src: str, tgt: str) -> tuple[str, str]:
    return exchange_names(src, tgt, share=1.0)


@pytest.mark.parametrize(
    ("src", "tgt"),
    [
        ("Ich habe Thomas gesehen.", "I saw NAME."),
        ("Thomas schläft, glaube ich.", "I think NAME is asleep."),
        ("Welche gehören Anna?", "Which are NAME's?"),
        ("Wo ist José heute?", "Where is NAME today?"),
    ],
)
def test_a_name_is_another_on_both_sides(src: str, tgt: str) -> None:
    (name,) = {"Thomas", "Anna", "José"} & set(re.findall(r"\w+", src))
    changed = exchange(src, tgt.replace("NAME", name))
    (other,) = re.findall(re.escape(tgt).replace("NAME", r"(\w+)"), changed[1])
    assert changed == (src.replace(name, other), tgt.replace("NAME", other))
    assert other != name
    assert other.istitle()


@pytest.mark.parametrize(
    ("src", "tgt"),
    [
        ("In der Nacht war es kalt.", "In the night it was cold."),  # a capital begins a sentence
        ("Ich sah Anna und Anna.", "I saw Anna twice."),  # not equally often
        ("Das ist Toms Hund.", "That is Tom's dog."),
        ("Es war 1 Uhr.", "It was 1 o'clock."),
        ("Это Анна.", "то Анна."),  # made-up names are Latin
        ("നന്ദി", "Thanks"),
    ],
)
def test_what_is_no_name_stays(src: str, tgt: str) -> None:
    assert exchange(src, tgt) == (src, tgt)


@pytest.mark.parametrize(
    "change_some",
    [
        partial(as_typed, drop_final_mark=0.3, lowercase_src=0.0),
        partial(as_typed, drop_final_mark=0.0, lowercase_src=0.3),
        partial(protect_spans, share=0.3),
        partial(exchange_names, share=0.3),
    ],
    ids=["final mark", "capitals", "spans", "names"],
)
def test_a_share_of_the_pairs_is_changed_and_the_same_each_time(change_some: Change) -> None:
    pairs = [(f"Ich sah Anna {n} Mal.", f"I saw Anna {n} times.") for n in range(100, 1100)]
    changed = [change_some(*pair) for pair in pairs]
    assert changed == [change_some(*pair) for pair in pairs]
    assert 230 < sum(map(operator.ne, pairs, changed)) < 370

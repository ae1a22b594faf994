"""Casual spelling, placeholders, and other names and numbers: alike on both sides of a pair."""

import operator
import random
import re

import pytest

from hubnmt.text.protected_spans import PLACEHOLDERS
from training.config.data import DataConfig
from training.data.augmentation import augment, protect_pair


def change(src: str, tgt: str, **shares: float) -> tuple[str, str]:
    config = DataConfig(src_lang="de", tgt_lang="en", dataset="user/name", **shares)
    return augment(src, tgt, config)


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
    assert change(*pair, drop_final_mark=1.0) == expected
    assert change(*pair) == pair


def test_a_shared_span_or_name_is_the_same_placeholder_on_both_sides() -> None:
    src, tgt = protect_pair("LH456 um 12:30, LH456!", "LH456 at 12:30, LH456!", random.Random(1))
    first, second = src[0], src[5]
    assert first != second
    assert (src, tgt) == (f"{first} um {second}, {first}!", f"{first} at {second}, {first}!")
    both = ("Anna Müller wohnt mit Paul in Wien.", "Anna Müller lives with Paul in Vienna.")
    src, tgt = change(*both, protect_names=1.0)
    first, second = src[0], src[12]
    assert {first, second} <= {*PLACEHOLDERS}
    assert src == f"{first} wohnt mit {second} in Wien."
    assert tgt == f"{first} lives with {second} in Vienna."
    src, tgt = change("Paul und Anna, Paul!", "Anna and Paul!", protect_names=1.0)
    assert (src.count("Paul"), tgt.count("Paul"), src[9]) == (2, 1, tgt[0])


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
    changed = change(src, tgt.replace("NAME", name), vary_names=1.0)
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
    assert change(src, tgt, vary_names=1.0) == (src, tgt)


@pytest.mark.parametrize(
    "setting", ["drop_final_mark", "lowercase_src", "protect_spans", "protect_names", "vary_names"]
)
def test_a_share_of_the_pairs_is_changed_and_the_same_each_time(setting: str) -> None:
    pairs = [(f"Ich sah Anna {n} Mal.", f"I saw Anna {n} times.") for n in range(100, 1100)]
    changed = [change(*pair, **{setting: 0.3}) for pair in pairs]
    assert changed == [change(*pair, **{setting: 0.3}) for pair in pairs]
    assert 230 < sum(map(operator.ne, pairs, changed)) < 370

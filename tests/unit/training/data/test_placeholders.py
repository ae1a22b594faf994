"""What a translation copies becomes the same placeholder on both sides of a pair."""

import itertools
import random

from hubnmt.text.protected_spans import PLACEHOLDERS
from training.data.placeholders import protect_names, protect_pair, protect_spans


def test_a_shared_span_is_the_same_placeholder_on_both_sides() -> None:
    src, tgt = protect_pair("LH456 um 12:30, LH456!", "LH456 at 12:30, LH456!", random.Random(1))
    first, second = src[0], src[5]
    assert {first, second} <= {*PLACEHOLDERS}
    assert first != second
    assert (src, tgt) == (f"{first} um {second}, {first}!", f"{first} at {second}, {first}!")


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

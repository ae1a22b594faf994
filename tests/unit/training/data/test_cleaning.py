"""Cleaning: broken pairs are dropped and counted, none in silence, and none without need."""

import pytest

from training.config.data import DataConfig
from training.data.cleaning import HeldOutSentences, tidy, why_drop


@pytest.mark.parametrize(
    ("src", "tgt", "reason"),
    [
        ("Ein Hund.", "A dog.", None),
        ("Ein Hund.", "A \ufffd dog.", "not valid UTF-8"),
        ("\0E\0i\0n\0", "A dog.", "not valid UTF-8"),
        ("Ein Hund.", "A dog\0.", "not valid UTF-8"),
        ("", "A dog.", "empty"),
        ("Ja." * 20, "Yes.", "absurdly unequal"),
        ("Paris", "Paris", "source = target"),
        ("Ein  Hund", " Ein Hund ", "source = target"),
        ("Привет, мир", "Hello, world", "wrong script"),
        ("12:30 !", "half past twelve", None),
    ],
)
def test_a_pair_stays_or_has_a_reason(src: str, tgt: str, reason: str | None) -> None:
    config = DataConfig(src_lang="de", tgt_lang="en", dataset="user/name")
    assert why_drop(tidy(src), tidy(tgt), config) == reason


@pytest.mark.parametrize(
    "pair", [("Ein Hund rennt", "A dog runs"), ("ein hund rennt!", "x"), ("x", "A dog RUNS.")]
)
def test_a_pair_that_shares_a_side_with_the_held_out_ones_goes(pair: tuple[str, str]) -> None:
    held_out = HeldOutSentences()
    held_out.update([("Ein Hund rennt.", "A dog runs.")])
    assert held_out.shares_a_side(*pair)
    assert not held_out.shares_a_side("Eine Katze rennt", "A cat runs")

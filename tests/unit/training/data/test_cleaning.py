"""Cleaning: broken pairs are dropped and counted, none in silence, and none without need."""

from typing import Any

import pytest

from training.config.data import DataConfig
from training.data.cleaning import Cleaner, HeldOut, tidy


def make_config(**changes: Any) -> DataConfig:
    return DataConfig(**({"src_lang": "de", "tgt_lang": "en", "dataset": "user/name"} | changes))


def why(src: str, tgt: str, *held_out: tuple[str, str], **changes: Any) -> str | None:
    return Cleaner(make_config(**changes), HeldOut(held_out)).why_drop(tidy(src), tidy(tgt))


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
    assert why(src, tgt) == reason


@pytest.mark.parametrize(
    "pair", [("Ein Hund rennt", "A dog runs"), ("ein hund rennt!", "x"), ("x", "A dog RUNS.")]
)
def test_a_pair_that_shares_a_side_with_the_held_out_ones_goes(pair: tuple[str, str]) -> None:
    held_out = ("Ein Hund rennt.", "A dog runs.")
    assert why(*pair, held_out) == "in validation or test set"
    assert why(*pair, held_out, drop_held_out=False) is None

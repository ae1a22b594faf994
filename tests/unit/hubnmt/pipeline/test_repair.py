"""The guard: it finds loops, copies and dropped text, and is silent on what people wrote."""

import random
from pathlib import Path

import pytest

from hubnmt.config import DecodingConfig
from hubnmt.pipeline.repair import (
    MAX_PERIOD,
    MIN_LOOP_TOKENS,
    MIN_REPEATS,
    find_degenerate,
    longest_loop,
)
from hubnmt.text.tokenizer import Tokenizer

ORDINARY = list(range(100, 120))
"""Tokens that say something."""


def measure_slowly(ids: list[int]) -> int:
    """Try every stretch with every period."""
    longest = 0
    for start in range(len(ids)):
        for end in range(start + MIN_LOOP_TOKENS, len(ids) + 1):
            stretch = ids[start:end]
            for period in range(1, MAX_PERIOD + 1):
                repeats = stretch[period:] == stretch[:-period]
                if repeats and len(stretch) >= MIN_REPEATS * period:
                    longest = max(longest, len(stretch))
    return longest


@pytest.mark.parametrize("seed", range(1, 25, 3))
def test_loops_are_those_of_a_slow_search(seed: int) -> None:
    """Few different tokens, so that loops of several periods come by chance, and one on purpose."""
    rng = random.Random(seed)
    ids = [rng.randrange(1 + seed % 3) for _ in range(seed)]
    unit = [rng.randrange(3) for _ in range(1 + seed % 6)]
    ids += unit * rng.randint(1, 5) + [rng.randrange(3) for _ in range(seed % 5)]
    assert longest_loop(ids) == measure_slowly(ids)


REPEATS, COPIES = ["repeats itself"], ["copies the source"]
SHORT = ["is far shorter than the source"]


@pytest.mark.parametrize(
    ("src_ids", "tgt_ids", "max_new_tokens", "found"),
    [
        (ORDINARY, [7, 8] * 6, 0, REPEATS),
        ([7, 8] * 6, [7, 8] * 6, 0, []),
        (ORDINARY, [5] * 7, 0, []),
        (ORDINARY, [5, 6, 7, 8] * 3, 0, []),
        (ORDINARY, [*range(2 * len(ORDINARY) + 9)], 0, []),
        (ORDINARY, [*range(2 * len(ORDINARY) + 10)], 0, ["does not end"]),
        (ORDINARY[:11], [], 0, []),
        (ORDINARY[:12], ORDINARY[:3], 0, SHORT),
        (ORDINARY[:12], ORDINARY[:4], 0, []),
        (ORDINARY * 4, ORDINARY[:2], 2, []),
        (ORDINARY * 4, [7] * 9, 9, REPEATS),
    ],
)
def test_loops_and_dropped_text_show_in_the_tokens(
    src_ids: list[int], tgt_ids: list[int], max_new_tokens: int, found: list[str]
) -> None:
    ids = {"src_ids": src_ids, "tgt_ids": tgt_ids}
    decoding = DecodingConfig(max_new_tokens=max_new_tokens or None)
    assert find_degenerate(src="a", text="b", **ids, decoding=decoding) == found


@pytest.mark.parametrize(
    ("src", "text", "found"),
    [
        ("Ein Hund rennt schnell.", "  ein HUND\nrennt  schnell. ", COPIES),
        ("Ein Hund rennt schnell.", "Ein Hund rennt schnell!", []),
        ("Ein Hund rennt schnell.", "Ein Hund rennt sehr schnell.", []),
        ("Angela Merkel, Berlin", "Angela Merkel, Berlin", []),
        ("", "", []),
        ("Ein Hund.", "A \ufffd.", ["contains a part of a character"]),
    ],
)
def test_copies_and_parts_of_characters_show_in_the_text(
    src: str, text: str, found: list[str]
) -> None:
    assert find_degenerate(src=src, text=text, src_ids=ORDINARY, tgt_ids=ORDINARY) == found


def test_it_is_silent_on_translations_by_people(repo: Path) -> None:
    """A hundred captions, both ways."""
    sides = [
        (repo / "tests" / "fixtures" / f"captions.{side}").read_text(encoding="utf-8").splitlines()
        for side in ("de", "en")
    ]
    tokenizer = Tokenizer.train([*sides[0], *sides[1]], 300)
    for sources, texts in (sides, sides[::-1]):
        for src, text in zip(sources, texts, strict=True):
            ids = {"src_ids": tokenizer.encode(src), "tgt_ids": tokenizer.encode(text)}
            assert find_degenerate(src=src, text=text, **ids) == [], src

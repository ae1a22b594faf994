"""The guard: it finds loops, copies and dropped text, and is silent on what people wrote."""

import random
from pathlib import Path

import pytest

from hubnmt.pipeline.fallback import (
    MAX_PERIOD,
    MIN_LOOP_TOKENS,
    MIN_REPEATS,
    find_degenerate,
    is_copy,
    longest_loop,
)
from hubnmt.text.tokenizer import Tokenizer

ORDINARY = list(range(100, 120))
"""Tokens that say something."""


def suspect(
    *,
    src: str = "Ein Satz",
    src_ids: list[int] = ORDINARY,
    text: str = "A sentence",
    tgt_ids: list[int] = ORDINARY,
) -> list[str]:
    return find_degenerate(src=src, src_ids=src_ids, text=text, tgt_ids=tgt_ids)


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


@pytest.mark.parametrize(
    "ids", [[], [5] * 7, [5, 6, 7, 8] * 3, [*ORDINARY, *ORDINARY, *ORDINARY]], ids=str
)
def test_natural_repetition_is_no_loop(ids: list[int]) -> None:
    """Ha ha ha; a refrain; a sentence said again."""
    assert longest_loop(ids) == 0


def test_who_translates_a_loop_may_loop() -> None:
    loop = [7, 8] * 6
    assert suspect(tgt_ids=loop) == ["repeats itself"]
    assert suspect(src_ids=loop, tgt_ids=loop) == []


@pytest.mark.parametrize(
    ("src", "text", "copied"),
    [
        ("Ein Hund rennt schnell.", "Ein Hund rennt schnell.", True),
        ("Ein Hund rennt schnell.", "  ein HUND\nrennt  schnell. ", True),
        ("Ein Hund rennt schnell.", "A dog runs fast.", False),
        ("Ein Hund rennt schnell.", "Ein Hund rennt schnell!", False),
        ("Ein Hund rennt schnell.", "Ein Hund rennt sehr schnell.", False),
        ("Angela Merkel, Berlin", "Angela Merkel, Berlin", False),
        ("Hotel", "Hotel", False),
        ("", "", False),
    ],
)
def test_a_copy_has_the_same_words_and_more_than_a_name_has(
    src: str, text: str, copied: bool
) -> None:
    assert is_copy(src, text) is copied
    assert suspect(src=src, text=text) == (["copies the source"] if copied else [])


@pytest.mark.parametrize(
    ("n_src", "n_tgt", "short"),
    [(11, 0, False), (12, 0, True), (12, 3, True), (12, 4, False), (20, 60, False)],
)
def test_far_shorter_is_less_than_three_tenths_of_no_short_source(
    n_src: int, n_tgt: int, short: bool
) -> None:
    found = suspect(src_ids=list(range(n_src)), tgt_ids=list(range(n_tgt)))
    assert found == (["is far shorter than the source"] if short else [])


def test_a_target_that_was_asked_to_be_short_is_not_suspicious() -> None:
    loop_and_cut = {"src": "Ein Satz", "src_ids": list(range(90)), "text": "A"}
    assert find_degenerate(**loop_and_cut, tgt_ids=[5, 6], max_new_tokens=2) == []
    assert find_degenerate(**loop_and_cut, tgt_ids=[7] * 9, max_new_tokens=9) == ["repeats itself"]


def test_it_is_silent_on_translations_by_people(repo: Path) -> None:
    """A hundred captions, both ways."""
    sides = [
        (repo / "tests" / "fixtures" / f"captions.{side}").read_text(encoding="utf-8").splitlines()
        for side in ("de", "en")
    ]
    tokenizer = Tokenizer.train([*sides[0], *sides[1]], 300)
    for sources, texts in (sides, sides[::-1]):
        for src, text in zip(sources, texts, strict=True):
            src_ids, tgt_ids = tokenizer.encode(src), tokenizer.encode(text)
            assert suspect(src=src, src_ids=src_ids, text=text, tgt_ids=tgt_ids) == [], src

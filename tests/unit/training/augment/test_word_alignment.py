"""Word links: tables find what is known, and link nothing that translates nothing."""

import pytest

from tests.lexicon import LEXICON, invent_pairs
from training.augment.word_alignment import align


@pytest.mark.parametrize("swap", [False, True])
def test_tables_find_the_translation_of_every_word(swap: bool) -> None:
    sources, targets = invent_pairs(150, swap=swap)
    found = align(sources, targets)
    links = right = 0
    for src, tgt, pairs in zip(sources, targets, found, strict=True):
        links += len(pairs)
        right += sum(LEXICON[src[s]] == tgt[t] for t, s in pairs)
    assert links > 0.95 * sum(map(len, targets))
    assert right == links


def test_words_that_translate_nothing_have_no_link() -> None:
    sources, targets = invent_pairs(200)
    targets = [[*words, "indeed"] if n % 2 else words for n, words in enumerate(targets)]
    found = align(sources, targets)
    extra = [
        (len(words) - 1) in {t for t, _ in pairs}
        for words, pairs in zip(targets, found, strict=True)
        if words[-1] == "indeed"
    ]
    assert sum(extra) < 0.1 * len(extra)


def test_a_word_has_one_link_at_most() -> None:
    sources, targets = invent_pairs(50)
    doubled = [[word for word in words for _ in range(2)] for words in targets]
    for src, tgt, pairs in zip(sources, doubled, align(sources, doubled), strict=True):
        assert pairs
        assert len({s for _, s in pairs}) == len({t for t, _ in pairs}) == len(pairs)
        assert all(LEXICON[src[s]] == tgt[t] for t, s in pairs)

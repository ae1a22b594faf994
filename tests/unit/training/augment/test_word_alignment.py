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

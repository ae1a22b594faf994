"""Alignment: the head that looks along the links between words is found."""

import pytest

from hubnmt.checkpoint.folder import StoredModel
from hubnmt.translator import Translator
from tests.lexicon import LEXICON, invent_pairs
from training.release.alignment_head import choose_head, link_words
from training.run.validation import encode_pairs


@pytest.mark.parametrize("swap", [False, True])
def test_every_word_is_linked_to_its_translation(swap: bool) -> None:
    sources, targets = invent_pairs(150, swap=swap)
    found = link_words(sources, targets)
    assert sum(map(len, found)) > 0.95 * sum(map(len, targets))
    for src, tgt, links in zip(sources, targets, found, strict=True):
        assert all(LEXICON[src[s]] == tgt[t] for t, s in links)


def test_the_accuracy_of_a_head_is_that_of_its_map(tiny_stored: StoredModel) -> None:
    words = invent_pairs(40)
    texts = [[" ".join(each) for each in side] for side in words]
    translator = Translator(tiny_stored)
    best = choose_head(translator, encode_pairs(translator, *(["", *side] for side in texts)))
    assert best is not None
    n_right = n_links = 0
    for src, tgt, links in zip(*texts, link_words(*words), strict=True):
        maps = translator.attend(src, tgt, split=False).shifted(best.shift)
        looked_at = maps.by_word().cross[best.head].argmax(-1)
        n_right += sum(int(looked_at[target]) == source for target, source in links)
        n_links += len(links)
    assert best.n_links == n_links > 100
    assert best.accuracy == pytest.approx(n_right / n_links)

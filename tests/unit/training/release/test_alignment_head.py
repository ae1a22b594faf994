"""Alignment: the head that looks along the links between words is found."""

import itertools

import pytest
import torch
from torch import Tensor

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


@pytest.fixture
def translator(tiny_stored: StoredModel) -> Translator:
    return Translator(tiny_stored)


def accuracies_by_loop(
    translator: Translator, sources: list[str], targets: list[str]
) -> tuple[Tensor, int]:
    """All maps of one pair after the other, word by word."""
    maps = [translator.attend(*pair, split=False) for pair in zip(sources, targets, strict=True)]
    words = [each.by_word() for each in maps]
    sides = [
        [
            [t.strip().casefold() for t in side.tokens if t != "<eos>"]
            for side in (each.src, each.tgt)
        ]
        for each in words
    ]
    links = link_words([src for src, _ in sides], [tgt for _, tgt in sides])
    n_links = sum(map(len, links))
    right = torch.zeros(2, 2, 3)
    for each, pairs in zip(maps, links, strict=True):
        for shift, (target, source) in itertools.product((0, 1), pairs):
            cross = each.shifted(shift).by_word().cross
            right[shift] += cross[:, :, target].argmax(-1) == source
    return right / n_links, n_links


def test_each_head_scores_what_its_map_shows(translator: Translator) -> None:
    """In batches of pairs of unequal lengths as one by one."""
    sources, targets = ([" ".join(ws) for ws in side] for side in invent_pairs(40))
    expected, n_links = accuracies_by_loop(translator, sources, targets)
    best = choose_head(translator, encode_pairs(translator, ["", *sources], ["", *targets]))
    assert best is not None
    assert best.n_links == n_links > 100
    assert best.accuracy == pytest.approx(float(expected.max()))
    assert best.accuracy == pytest.approx(float(expected[best.shift][best.head]))
    assert len(expected.unique()) > 2

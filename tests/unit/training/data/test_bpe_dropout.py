"""BPE-dropout: the same text in other pieces, and the same pieces for the same seed."""

import random

import pytest

from hubnmt.text.tokenizer import Tokenizer
from training.data.bpe_dropout import BpeDropout


@pytest.fixture(scope="module")
def tokenizer(tiny_texts: list[str]) -> Tokenizer:
    return Tokenizer.train(tiny_texts * 2, 500)


AWKWARD = ["", "x", "Grüße, naïve 12:30", "  two  spaces ", "🙂 <bt> ഓടുന്നു", "never seen: Żółw"]


def test_no_dropout_splits_as_the_tokenizer_does(
    tokenizer: Tokenizer, tiny_texts: list[str]
) -> None:
    """The merge loop here and the library's agree, which is the oracle for all the rest."""
    drop = BpeDropout(tokenizer, 0.0)
    for text in [*tiny_texts, *AWKWARD]:
        ids = tokenizer.encode(text)
        assert drop(ids, random.Random(1)) == ids


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_the_text_stays_the_same(rate: float, tokenizer: Tokenizer, tiny_texts: list[str]) -> None:
    drop, rng = BpeDropout(tokenizer, rate), random.Random(1)
    for text in [*tiny_texts, *AWKWARD]:
        assert tokenizer.decode(drop(tokenizer.encode(text), rng)) == text


def test_the_seed_decides(tokenizer: Tokenizer, tiny_texts: list[str]) -> None:
    drop = BpeDropout(tokenizer, 0.3)
    ids = tokenizer.encode(" ".join(tiny_texts))
    first = drop(ids, random.Random(1))
    random.seed(99)
    assert drop(ids, random.Random(1)) == first
    assert drop(ids, random.Random(2)) != first

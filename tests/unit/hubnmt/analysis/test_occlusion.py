"""Leaving out a word: each number is a difference of two scores."""

import pytest

from hubnmt.analysis.occlusion import occlude
from hubnmt.errors import InputError
from hubnmt.translator import Translator

SRC = "Ein Hund, rennt."


def test_each_fall_is_the_difference_of_two_scores(random_model: Translator) -> None:
    found = occlude(random_model, SRC, "A dog")
    assert found.src_words == ("Ein", "Hund", ",", "rennt", ".")
    assert [SRC[a:b].strip() for a, b in found.spans] == list(found.src_words)
    whole = random_model.score(SRC, "A dog")
    assert found.tgt_tokens == whole.tgt_tokens
    shorter = ["Hund, rennt.", "Ein, rennt.", "Ein Hund rennt.", "Ein Hund,.", "Ein Hund, rennt"]
    for text, drops in zip(shorter, found.drops, strict=True):
        without = random_model.score(text, "A dog").tgt_log_probs
        wanted = [a - b for a, b in zip(whole.tgt_log_probs, without, strict=True)]
        assert drops == pytest.approx(wanted, abs=1e-4)
    assert any(abs(drop) > 0.01 for drops in found.drops for drop in drops)


@pytest.mark.parametrize("src", ["Hund", "", "  "])
def test_one_word_cannot_be_left_out(random_model: Translator, src: str) -> None:
    with pytest.raises(InputError, match="at least two"):
        occlude(random_model, src, "A dog")

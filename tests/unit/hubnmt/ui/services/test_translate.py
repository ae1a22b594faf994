"""Two translations beside each other: their differences are whole words."""

from typing import Any

import pytest

from hubnmt.checkpoint.files import bundled_models
from hubnmt.errors import InputError
from hubnmt.translator import Translator
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.translate import compare, mark_differences


@pytest.mark.parametrize(
    ("first", "second", "marked"),
    [
        ("A dog.", "A dog.", [[], []]),
        ("A dog runs.", "A cat runs.", [["dog"], ["cat"]]),
        ("A dog runs.", "A dog runs!", [["."], ["!"]]),
        ("ഒരു നായ", "ഒരു പൂച്ച", [["നായ"], ["പൂച്ച"]]),
        ("", "A", [[], ["A"]]),
    ],
)
def test_differences_are_whole_words(first: str, second: str, marked: list[Any]):
    spans = mark_differences(first, second)
    assert [[s.text for s in side if s.is_different] for side in spans] == marked
    assert ["".join(s.text for s in side) for side in spans] == [first, second]


def test_models_of_different_pairs_are_not_compared():
    registry = ModelRegistry(Translator.from_pretrained, bundled_models())
    with pytest.raises(InputError, match="A translates German to English and B English to"):
        compare(registry, "ein hund", ["de-en-multi30k", "en-de"], [{}, {}])

import pytest

from hubnmt.ui.languages import EXAMPLES, NAMES, examples, language_name


@pytest.mark.parametrize(
    ("tag", "name"),
    [("de", "German"), ("pt-BR", "Portuguese"), ("zh_Hans", "Chinese"), ("tlh", "tlh")],
)
def test_languages_are_called_by_name_and_unknown_ones_by_tag(tag: str, name: str):
    assert language_name(tag) == name


def test_every_language_with_examples_has_a_name():
    assert set(EXAMPLES) <= set(NAMES)


def test_a_language_without_examples_has_none():
    assert examples("de-AT")
    assert examples("tlh") == ()

import pytest

from hubnmt.text.languages import language_name, main_tag


@pytest.mark.parametrize(
    ("tag", "name"),
    [("de", "German"), ("pt-BR", "Portuguese"), ("zh_Hans", "Chinese"), ("tlh", "tlh")],
)
def test_languages_are_called_by_name_and_unknown_ones_by_tag(tag: str, name: str):
    assert language_name(tag) == name


def test_script_and_region_are_left_out():
    assert [main_tag(tag) for tag in ("pt-BR", "zh_Hans", "EN")] == ["pt", "zh", "en"]

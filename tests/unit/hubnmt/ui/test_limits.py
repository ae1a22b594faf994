from typing import Any

import pytest

from hubnmt.errors import InputError
from hubnmt.ui import limits
from tests.page import FakeTranslator

TEXT = "ein hund rennt im schnee"


@pytest.fixture
def translator() -> Any:
    return FakeTranslator("stand-in")


@pytest.mark.parametrize("text", ["", " \n\t ", None, 3, ["a"], "x" * (limits.MAX_TEXT_CHARS + 1)])
def test_what_is_no_text_or_too_much_is_refused(translator: Any, text: Any):
    for call in (
        lambda: limits.check_text(text),
        lambda: limits.attend(translator, text, "a"),
        lambda: limits.score(translator, text, "a"),
        lambda: limits.score(translator, TEXT, text),
    ):
        with pytest.raises(InputError):
            call()


def test_the_longest_text_passes():
    limits.check_text("x" * limits.MAX_TEXT_CHARS)


def test_a_pair_too_long_to_score_is_refused_before_the_model_runs(
    translator: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(translator, "score", None)
    with pytest.raises(InputError, match=r"too long to score: 1,[0-9]+ tokens, at most 1,000"):
        limits.score(translator, TEXT, "ab " * 600)


def test_what_is_too_long_to_draw_is_refused_before_the_model_runs(
    translator: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(translator, "attend", None)
    with pytest.raises(InputError, match="too long to draw"):
        limits.attend(translator, "a b c d " * 500, "")


def test_the_translation_to_explain_must_be_text(translator: Any):
    with pytest.raises(InputError, match="not int"):
        limits.attend(translator, TEXT, 3)  # type: ignore[arg-type]

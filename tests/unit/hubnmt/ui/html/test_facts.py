from types import SimpleNamespace
from typing import Any

import pytest

from hubnmt.config import DecodingConfig
from hubnmt.ui.html import facts
from hubnmt.ui.services.translate import PageTranslation, TimedTranslation

MARKUP = "<img src=x onerror=alert(1)> & \"quoted\" '${x}' {{y}}"


def test_notices_are_escaped_sentences():
    html = facts.notice([MARKUP], "error")
    assert "<img" not in html
    assert "&lt;img" in html
    assert 'role="alert"' in html
    assert facts.notice(["it was cut"], "warning").count("<p>It was cut.</p>") == 1


def _timing(n_tokens: int, probability: float, seconds: float, load_seconds: float) -> str:
    translation: Any = SimpleNamespace(tgt_tokens="x" * n_tokens, token_probability=probability)
    timed = TimedTranslation(translation, seconds, load_seconds, DecodingConfig())
    return facts.timing_line(timed)


@pytest.mark.parametrize(
    ("probability", "said", "is_marked"),
    [(1.0, "100%", False), (0.5, "50%", False), (0.49, "49%", True), (0.001, "&lt;1%", True)],
)
def test_only_what_is_unsure_is_marked(probability: float, said: str, is_marked: bool):
    html = _timing(3, probability, 1, 0)
    assert f"token probability {said}<" in html
    assert ("unsure" in html) == is_marked


def test_a_text_in_another_language_offers_to_change_languages():
    translation: Any = SimpleNamespace(warnings=("the source looks like English, not German",))
    answer = PageTranslation(
        TimedTranslation(translation, 1.0, 0.0, DecodingConfig()), {}, better_language="en"
    )
    html = facts.warning_notice(answer)
    assert "Translate from English" in html
    assert "list.value = 'en'" in html
    assert "<button" not in facts.warning_notice(answer._replace(better_language=""))

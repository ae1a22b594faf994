import math
from types import SimpleNamespace
from typing import Any

import pytest

from hubnmt.config import DecodingConfig
from hubnmt.types import Candidate, SentencePair, Translation, mean_probability
from hubnmt.ui.html import facts
from hubnmt.ui.services.translate import PageTranslation, TimedTranslation

MARKUP = "<img src=x onerror=alert(1)> & \"quoted\" '${x}' {{y}}"


def test_notices_are_escaped_sentences():
    html = facts.notice([MARKUP], "error")
    assert "<img" not in html
    assert "&lt;img" in html
    assert 'role="alert"' in html
    assert facts.notice(["it was cut"], "warning").count("<p>It was cut.</p>") == 1


@pytest.mark.parametrize(
    ("probabilities", "said", "note"),
    [
        ([1.0], "100%", ""),
        ([0.7001], "70%", ""),
        ([0.69], "69%", ">check this<"),
        ([0.001], "&lt;1%", ">check this<"),
        ([0.9, 0.6], "73%", ">check 1 of 2 sentences<"),
    ],
)
def test_sentences_to_check_are_named(probabilities: list[float], said: str, note: str):
    rows = tuple((math.log(probability),) * 3 for probability in probabilities)
    translation = Translation(
        src="ab" * len(rows),
        text="<b" * len(rows),
        score=0.0,
        n_best=(Candidate("", 0.0, (), mean_probability(sum(rows, ())), rows),),
        src_tokens=("x",),
        tgt_tokens=("x",) * 3 * len(rows),
        sentences=tuple(SentencePair((n, n + 2), (n, n + 2)) for n in range(0, 2 * len(rows), 2)),
    )
    html = facts.timing_line(TimedTranslation(translation, 1, DecodingConfig()))
    assert f"token probability {said}<" in html
    assert (note in html) if note else ("check" not in html)
    assert "<b<" not in html


def test_a_text_in_another_language_offers_to_change_languages():
    translation: Any = SimpleNamespace(warnings=("the source looks like English, not German",))
    answer = PageTranslation(
        TimedTranslation(translation, 1.0, DecodingConfig()), {}, better_language="en"
    )
    html = facts.warning_notice(answer)
    assert "Translate from English" in html
    assert "list.value = 'en'" in html
    assert "<button" not in facts.warning_notice(answer._replace(better_language=""))

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from hubnmt.config import DecodingConfig
from hubnmt.types import Candidate, SentencePair, Translation, mean_probability
from hubnmt.ui.html import facts
from hubnmt.ui.services.translate import TimedTranslation
from tests.conftest import REPO


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
    assert "list.value = 'en'" in facts.warning_notice(translation, "en")
    assert "<button" not in facts.warning_notice(translation, "")


# --- The model card ---

CARD = """---
license: mit
---

# Title of_it

Two lines
of text with `a < b` and one \\_ escaped.

| set | BLEU |
|---|---|
| a \\| b | 42.5 |

- first
- second

```python
print("<b>")
```
"""


def test_the_head_is_left_out_and_the_rest_is_laid_out():
    shown = facts.card_html(CARD).replace("\n", " ")
    assert "license" not in shown
    assert "<h3>Title of_it</h3>" in shown
    assert "<p>Two lines of text with <code>a &lt; b</code> and one _ escaped.</p>" in shown
    assert '<th scope="col">set</th> <th scope="col">BLEU</th>' in shown
    assert "<td>a | b</td> <td>42.5</td>" in shown
    assert "---" not in shown
    assert "<ul> <li>first</li> <li>second</li> </ul>" in shown
    assert "print(&quot;&lt;b&gt;&quot;)" in shown


BAD = "<script>alert(1)</script><img src=x onerror=alert(2)> ![](http://e.org/x.png) ${alert(3)}"


@pytest.mark.parametrize(
    "card",
    [
        f"{BAD}\n\n# {BAD}\n\n- {BAD}",
        f"| {BAD} | b |\n|---|---|\n| {BAD} | `{BAD}` |",
        f"```{BAD}\n{BAD}\n```",
        f"`{BAD}` \\{BAD} ``` `",
        f"---\n{BAD}",
        f"text\n```\n{BAD}",
    ],
)
def test_whatever_a_card_says_stays_text(card: str):
    found = [*ElementTree.fromstring(facts.card_html(card)).iter()]
    outer = {"details", "summary", "h3", "p", "ul", "li", "pre", "code", "div", "ol", "em", "hr"}
    assert {each.tag for each in found} <= outer | {"table", "thead", "tbody", "tr", "th", "td"}
    assert {name for each in found for name in each.attrib} <= {
        "class",
        "scope",
        "tabindex",
        "role",
        "aria-label",
    }


@pytest.mark.parametrize("card", sorted(REPO.glob("hubnmt/pretrained/*/README.md")), ids=str)
def test_our_own_cards_lose_nothing_but_their_end(card: Path):
    shown = facts.card_html(card.read_text("utf-8"))
    assert "How to cite" in shown
    assert "The rest of this card" not in shown
    assert "**" not in shown
    assert shown.count("<table") == 3

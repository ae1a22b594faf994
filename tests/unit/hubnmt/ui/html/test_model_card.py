import dataclasses
import html
from html.parser import HTMLParser

import pytest

from hubnmt.checkpoint.card import CardFacts, escape_cell, write_card
from hubnmt.config import ModelConfig
from hubnmt.ui.html.model_card import MAX_CHARS, card_html
from tests.conftest import REPO

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


class _Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]


def test_the_head_is_left_out_and_the_rest_is_laid_out():
    shown = card_html(CARD).replace("\n", " ")
    assert "license" not in shown
    assert "<h3>Title of_it</h3>" in shown
    assert "<p>Two lines of text with <code>a &lt; b</code> and one _ escaped.</p>" in shown
    assert '<th scope="col">set</th><th scope="col">BLEU</th>' in shown
    assert "<td>a | b</td><td>42.5</td>" in shown
    assert "---" not in shown
    assert "<ul> <li>first</li> <li>second</li> </ul>" in shown
    assert "print(&quot;&lt;b&gt;&quot;)" in shown


@pytest.mark.parametrize(
    "text",
    ["Tom & Ann <b> `code`", "3 < 4 \\ a|b *x* ~_[y]", "&amp; &lt; &#60;", "`", "\\`", "`a` b` c"],
)
def test_a_cell_shows_what_was_escaped_for_it(text: str):
    shown = card_html(f"| x |\n|---|\n| {escape_cell(text)} |\n")
    cell = shown.split("<td>")[1].split("</td>")[0]
    assert cell == html.escape(text)


BAD = "<script>alert(1)</script><img src=x onerror=alert(2)> ![](http://e.org/x.png) ${alert(3)}"


@pytest.mark.parametrize(
    "card",
    [
        BAD,
        f"# {BAD}",
        f"- {BAD}",
        f"| {BAD} | b |\n|---|---|\n| {BAD} | `{BAD}` |",
        f"```{BAD}\n{BAD}\n```",
        f"`{BAD}` \\{BAD} ``` `",
        f"---\n{BAD}",
        f"text\n```\n{BAD}",
        "|\n|--|",
    ],
)
def test_whatever_a_card_says_stays_text(card: str):
    found = _Tags(card_html(card))
    outer = {"details", "summary", "h3", "p", "ul", "li", "pre", "code", "div", "ol", "em", "hr"}
    assert set(found.tags) <= outer | {"table", "thead", "tbody", "tr", "th", "td"}
    assert set(found.attributes) <= {"class", "scope", "tabindex", "role", "aria-label"}


def test_a_long_card_is_shown_whole_and_a_longer_one_says_that_it_is_cut():
    sentence = "From Tatoeba, by its contributors, under CC-BY 2.0 FR. "
    facts = CardFacts(
        name="de-en",
        title="German to English",
        config=ModelConfig(src_lang="de", tgt_lang="en", src_vocab_size=300, tgt_vocab_size=300),
        data=sentence * 100,
        data_license=sentence * 100,
        good=[("Ein Hund rennt. " * 10,) * 3] * 20,
        citation="Cite the sources of the data.",
    )
    card = write_card(facts)
    assert len(card) > 20_000
    assert "Cite the sources" in card_html(card)
    assert "The rest of this card" not in card_html(card)
    longer = write_card(dataclasses.replace(facts, limits=sentence * (MAX_CHARS // 50)))
    assert "The rest of this card is in" in card_html(longer)


@pytest.mark.parametrize("card", sorted(REPO.glob("hubnmt/pretrained/*/README.md")), ids=str)
def test_our_own_cards_lose_nothing_but_their_end(card):
    shown = card_html(card.read_text("utf-8"))
    assert "How to cite" in shown
    assert "The rest of this card" not in shown
    assert "**" not in shown
    assert shown.count("<table") == 3

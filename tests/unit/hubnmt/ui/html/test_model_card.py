from html.parser import HTMLParser

import pytest

from hubnmt.ui.html.facts import card_html
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


@pytest.mark.parametrize("card", sorted(REPO.glob("hubnmt/pretrained/*/README.md")), ids=str)
def test_our_own_cards_lose_nothing_but_their_end(card):
    shown = card_html(card.read_text("utf-8"))
    assert "How to cite" in shown
    assert "The rest of this card" not in shown
    assert "**" not in shown
    assert shown.count("<table") == 3

"""Render a model card, which is untrusted, as HTML.

HTML in the card is escaped; links and images stay text, so that nothing is loaded from elsewhere.
"""

import re
from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

MAX_CHARS = 30_000
"""Longer cards are truncated; the front matter, which grows with the scores, does not count."""

HEAD, HEAD_END = "---\n", re.compile(r"^---(?:\n|\Z)", re.MULTILINE)
"""First and last line of YAML front matter."""

SECTION = re.compile(r"^(?=#{1,2} )", re.MULTILINE)

FIRST = ("## Limits", "## Scores")
"""Sections that visitors see first."""

_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
_MARKDOWN.disable(["link", "image", "autolink", "reference", "html_block", "html_inline"])


def _open_table(*_: Any) -> str:
    region = '<div class="scroll" tabindex="0" role="region" aria-label="Table">'
    return f'{region}<table class="sentences">'


def _render_plain(tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """Render a tag without the card's attributes; all headings have the same level."""
    token = tokens[index]
    tag = "h3" if token.type.startswith("heading") else token.tag
    scope = ' scope="col"' if token.type == "th_open" else ""
    return f"</{tag}>" if token.nesting < 0 else f"<{tag}{scope}>"


_RULES: dict[str, Any] = {
    f"{kind}_{end}": _render_plain
    for kind in ("heading", "th", "td", "ordered_list")
    for end in ("open", "close")
}
_RULES |= {"table_open": _open_table, "table_close": lambda *_: "</table></div>"}
_MARKDOWN.renderer.rules |= _RULES  # type: ignore[attr-defined]  # declared read-only


def _rank(section: str) -> int:
    return next((n for n, head in enumerate(FIRST) if section.startswith(head)), len(FIRST))


def card_html(card: str) -> str:
    """Render a card as a collapsed section, `FIRST` first; empty for an empty card."""
    end = HEAD_END.search(card, len(HEAD)) if card.startswith(HEAD) else None
    text = card[end.end() :] if end else card
    sections = SECTION.split(text[:MAX_CHARS])
    shown = _MARKDOWN.render("".join(sorted(sections, key=_rank)))
    if not shown:
        return ""
    if len(text) > MAX_CHARS:
        shown += "<p>The rest of this card is in the model folder's README.md.</p>"
    return f'<details class="card-text"><summary>About this model</summary>{shown}</details>'

"""A model's card as HTML: the plain part of Markdown, of which our own cards are made.

Takes the text of a card, which is anybody's, gives HTML. Everything is escaped; links and pictures
stay text, so that nothing is fetched from elsewhere. Must not know models.
"""

import html
import re
from collections.abc import Iterable, Iterator
from itertools import groupby

MAX_CHARS = 20_000
"""What is longer is cut: four times as long as the longest of ours."""

INLINE = re.compile(r"\\([!-/:-@\[-`{-~])|`([^`]+)`|(&(?:#\w{1,8}|[A-Za-z]\w{1,31});)")
"""A mark that is escaped, code, or an entity."""
CELLS = re.compile(r"(?<!\\)\|")
RULE = re.compile(r"[|:\-\s]+")
"""The line between the head of a table and its rows."""


def card_html(card: str) -> str:
    """Show a card, folded away; nothing for none."""
    kinds = groupby(_kinds(_body(card[:MAX_CHARS].splitlines())), key=lambda each: each[0])
    shown = "".join(_block(kind, [text for _, text in lines]) for kind, lines in kinds)
    if not shown:
        return ""
    return f'<details class="card-text"><summary>About this model</summary>{shown}</details>'


def _body(lines: list[str]) -> list[str]:
    """Leave out the YAML head."""
    if not lines or lines[0].strip() != "---":
        return lines
    end = next((n for n, line in enumerate(lines[1:], 1) if line.strip() == "---"), 0)
    return lines[end + 1 :]


def _kinds(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Say of each line what it is part of."""
    is_code = False
    for line in lines:
        if line.startswith("```"):
            is_code = not is_code
            yield "blank", ""
        elif is_code:
            yield "code", line
        elif not line.strip():
            yield "blank", ""
        elif line.startswith("#"):
            yield "heading", line.lstrip("# ")
        elif line.startswith("|"):
            yield "table", line.strip().strip("|")
        elif line.startswith(("- ", "* ")):
            yield "list", line[2:]
        else:
            yield "text", line


def _block(kind: str, lines: list[str]) -> str:
    if kind == "blank":
        return ""
    if kind == "code":
        return f"<pre>{html.escape(chr(10).join(lines))}</pre>"
    if kind == "table":
        return _table(lines)
    if kind == "list":
        return f"<ul>{''.join(f'<li>{_inline(each)}</li>' for each in lines)}</ul>"
    if kind == "heading":
        return "".join(f"<h3>{_inline(each)}</h3>" for each in lines)
    return f"<p>{_inline(' '.join(lines))}</p>"


def _table(lines: list[str]) -> str:
    """Draw rows of cells; the first names the columns."""
    head, *rows = [line for line in lines if not RULE.fullmatch(line)] or [""]
    names = "".join(f'<th scope="col">{_inline(cell)}</th>' for cell in CELLS.split(head))
    body = "".join(
        f"<tr>{''.join(f'<td>{_inline(cell)}</td>' for cell in CELLS.split(row))}</tr>"
        for row in rows
    )
    table = f'<table class="sentences"><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll" tabindex="0" role="region" aria-label="Table">{table}</div>'


def _inline(text: str) -> str:
    """Escape a stretch of text; what stands between backticks is code."""
    return "".join(_shown(text.strip()))


def _shown(text: str) -> Iterator[str]:
    behind = 0
    for found in INLINE.finditer(text):
        mark, code, entity = found.groups()
        said = html.escape(code or mark or html.unescape(entity))
        yield html.escape(text[behind : found.start()])
        yield f"<code>{said}</code>" if code else said
        behind = found.end()
    yield html.escape(text[behind:])

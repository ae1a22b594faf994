"""Render a model card, an untrusted subset of Markdown, as HTML.

Everything is escaped; links and images stay text, so that nothing is loaded from elsewhere.
"""

import html
import re
from collections.abc import Iterable, Iterator
from itertools import groupby

MAX_CHARS = 20_000
"""Longer cards are truncated; the longest card of this project has a quarter of it."""

INLINE = re.compile(r"\\([!-/:-@\[-`{-~])|`([^`]+)`|(&(?:#\w{1,8}|[A-Za-z]\w{1,31});)")
"""Escaped punctuation, inline code, or an HTML entity."""
CELLS = re.compile(r"(?<!\\)\|")
RULE = re.compile(r"[|:\-\s]+")
"""Delimiter row between the header and body of a table."""


def card_html(card: str) -> str:
    """Render a card as a collapsed section; empty for an empty card."""
    kinds = groupby(_kinds(_body(card[:MAX_CHARS].splitlines())), key=lambda each: each[0])
    shown = "".join(_block(kind, [text for _, text in lines]) for kind, lines in kinds)
    if not shown:
        return ""
    return f'<details class="card-text"><summary>About this model</summary>{shown}</details>'


def _body(lines: list[str]) -> list[str]:
    """Strip the YAML front matter."""
    if not lines or lines[0].strip() != "---":
        return lines
    end = next((n for n, line in enumerate(lines[1:], 1) if line.strip() == "---"), 0)
    return lines[end + 1 :]


def _kinds(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Classify each line as part of a block type."""
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
    """Render a table whose first row is the header."""
    head, *rows = [line for line in lines if not RULE.fullmatch(line)] or [""]
    names = "".join(f'<th scope="col">{_inline(cell)}</th>' for cell in CELLS.split(head))
    body = "".join(
        f"<tr>{''.join(f'<td>{_inline(cell)}</td>' for cell in CELLS.split(row))}</tr>"
        for row in rows
    )
    table = f'<table class="sentences"><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll" tabindex="0" role="region" aria-label="Table">{table}</div>'


def _inline(text: str) -> str:
    """Escape inline text and render backtick spans as code."""
    return "".join(_inline_parts(text.strip()))


def _inline_parts(text: str) -> Iterator[str]:
    end = 0
    for found in INLINE.finditer(text):
        mark, code, entity = found.groups()
        content = html.escape(code or mark or html.unescape(entity))
        yield html.escape(text[end : found.start()])
        yield f"<code>{content}</code>" if code else content
        end = found.end()
    yield html.escape(text[end:])

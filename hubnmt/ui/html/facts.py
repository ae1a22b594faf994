"""Rendering of notices, model facts, model cards and timings as HTML; all text is escaped."""

import html
import re
from collections.abc import Iterable
from typing import Literal

from markdown_it import MarkdownIt

from hubnmt.text.languages import language_name
from hubnmt.types import CHECK_BELOW, Translation
from hubnmt.ui.services.registry import ModelFacts
from hubnmt.ui.services.text_format import sentence, short_count, short_duration
from hubnmt.ui.services.translate import TimedTranslation

CHANGE = (
    "const list = document.querySelector('.languages .src'); list.value = 'CODE'; "
    "list.dispatchEvent(new Event('change'))"
)
"""Selects another source language in `assets/languages.html`; the text stays."""

CONFIDENCE = (
    "geometric mean of the probabilities of all tokens: the model's confidence, not the "
    "accuracy of the translation"
)

MAX_CARD_CHARS = 30_000
"""Longer cards are truncated; the front matter, which grows with the scores, does not count."""

FRONT_MATTER = re.compile(r"\A---\n.*?^---(?:\n|\Z)", re.MULTILINE | re.DOTALL)

SECTION = re.compile(r"^(?=#{1,2} )", re.MULTILINE)

FIRST = ("## Limits", "## Scores")
"""Sections of a card that visitors see first."""


def notice(messages: Iterable[str], kind: Literal["error", "warning"]) -> str:
    """Render messages as a notice; empty without messages."""
    lines = "".join(f"<p>{html.escape(sentence(message))}</p>" for message in messages)
    role = "alert" if kind == "error" else "status"
    return f'<div class="notice {kind}" role="{role}">{lines}</div>' if lines else ""


def warning_notice(translation: Translation, better_language: str) -> str:
    """Render a translation's warnings, with a button to change to a better source language."""
    shown = notice(translation.warnings, "warning")
    if not better_language:
        return shown
    code = html.escape(better_language)
    button = (
        f'<button type="button" class="change" onclick="{CHANGE.replace("CODE", code)}">'
        f"Translate from {language_name(code)}</button>"
    )
    return shown.removesuffix("</div>") + f"<p>{button}</p></div>"


def model_line(facts: ModelFacts) -> str:
    """Render a model's description, name and size on one line."""
    about = facts.description
    parts = [html.escape(about[0].upper() + about[1:])] if about else []
    parts.append(f"<code>{html.escape(facts.name)}</code>")
    parts.append(f"{short_count(facts.n_parameters)} parameters")
    if facts.size_mb is not None:
        digits = 1 if facts.size_mb < 100 else 0
        parts.append(f"{facts.size_mb:.{digits}f} MB")
    return fact_row(parts)


def timing_line(timed: TimedTranslation) -> str:
    """Render duration, length, the seed of a sample, and token probability of a translation."""
    n_tokens = len(timed.translation.tgt_tokens)
    probability = timed.translation.token_probability
    parts = [
        f"<b>{short_duration(timed.seconds)}</b>",
        f"{n_tokens} token{'' if n_tokens == 1 else 's'}",
    ]
    if timed.decoding.sample:
        parts.append(f"seed {timed.decoding.seed}")
    percent = f"{probability:.0%}" if probability >= 0.005 else "&lt;1%"
    parts.append(f'<span title="{CONFIDENCE}">token probability {percent}</span>')
    if timed.translation.to_check:
        parts.append(_check_note(timed.translation))
    return fact_row(parts)


def _check_note(translation: Translation) -> str:
    """Ask to check the whole translation, or name the sentences of several."""
    texts = [translation.text[slice(*pair.tgt)] for pair in translation.to_check]
    reason = f"the token probability is below {CHECK_BELOW:.0%}: {' '.join(texts)}"
    n_sentences = len(translation.sentences)
    note = "check this" if n_sentences == 1 else f"check {len(texts)} of {n_sentences} sentences"
    return f'<b class="unsure" title="{html.escape(reason)}">{note}</b>'


def fact_row(parts: Iterable[str]) -> str:
    """Render facts in a row; the style sheet adds separators."""
    spans = "".join(f"<span>{part}</span>" for part in parts)
    return f'<div class="facts"><div>{spans}</div></div>'


# --- The model card, which is untrusted ---


# Links and images stay text, so that nothing is loaded from elsewhere.
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
_MARKDOWN.disable(["link", "image", "autolink", "reference", "html_block", "html_inline"])


def _render(text: str) -> str:
    """Render Markdown without attributes, with headings of one level and tables that scroll."""
    tokens = _MARKDOWN.parse(text)
    for token in tokens:
        token.attrs = {"scope": "col"} if token.type == "th_open" else {}
        if token.type.startswith("heading"):
            token.tag = "h3"
    shown = str(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}))
    region = '<div class="scroll" tabindex="0" role="region" aria-label="Table">'
    shown = shown.replace("<table>", f'{region}<table class="sentences">')
    return shown.replace("</table>", "</table></div>")


def card_html(card: str) -> str:
    """Render a card as a collapsed section, `FIRST` first; empty for an empty card."""
    text = FRONT_MATTER.sub("", card, count=1)

    def rank(section: str) -> int:
        return next((n for n, head in enumerate(FIRST) if section.startswith(head)), len(FIRST))

    sections = SECTION.split(text[:MAX_CARD_CHARS])
    shown = _render("".join(sorted(sections, key=rank)))
    if not shown:
        return ""
    if len(text) > MAX_CARD_CHARS:
        shown += "<p>The rest of this card is in the model folder's README.md.</p>"
    return f'<details class="card-text"><summary>About this model</summary>{shown}</details>'

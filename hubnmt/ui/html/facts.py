"""Rendering of notices, model facts and timings as HTML; all text is escaped."""

import html
from collections.abc import Iterable
from typing import Literal

from hubnmt.text.languages import language_name
from hubnmt.types import CHECK_BELOW, Translation
from hubnmt.ui.services.registry import ModelFacts
from hubnmt.ui.services.text_format import sentence, short_count, short_duration
from hubnmt.ui.services.translate import PageTranslation, TimedTranslation

CHANGE = (
    "const list = document.querySelector('.languages .src'); list.value = 'CODE'; "
    "list.dispatchEvent(new Event('change'))"
)
"""Selects another source language in `assets/languages.html`; the text stays."""


def notice(messages: Iterable[str], kind: Literal["error", "warning"]) -> str:
    """Render messages as a notice; empty without messages."""
    lines = "".join(f"<p>{html.escape(sentence(message))}</p>" for message in messages)
    role = "alert" if kind == "error" else "status"
    return f'<div class="notice {kind}" role="{role}">{lines}</div>' if lines else ""


def warning_notice(answer: PageTranslation) -> str:
    """Render a translation's warnings; for a source in another language with a button to change."""
    shown = notice(answer.timed.translation.warnings, "warning")
    if not answer.better_language:
        return shown
    code = html.escape(answer.better_language)
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
        parts.append(
            f"{facts.size_mb:.1f} MB" if facts.size_mb < 100 else f"{facts.size_mb:.0f} MB"
        )
    return f'<div class="facts">{fact_row(parts)}</div>'


def timing_line(timed: TimedTranslation) -> str:
    """Render duration, length, the seed of a sample, and token probability of a translation."""
    n_tokens = len(timed.translation.tgt_tokens)
    token_probability = timed.translation.token_probability
    parts = [
        f"<b>{short_duration(timed.seconds)}</b>",
        f"{n_tokens} token{'' if n_tokens == 1 else 's'}",
    ]
    if timed.decoding.sample:
        parts.append(f"seed {timed.decoding.seed}")
    explained = (
        "geometric mean of the probabilities of all tokens: the model's confidence, not the "
        "accuracy of the translation"
    )
    sure = f"{token_probability:.0%}" if token_probability >= 0.005 else "&lt;1%"
    parts.append(f'<span title="{explained}">token probability {sure}</span>')
    if timed.translation.to_check:
        parts.append(_check_note(timed.translation))
    if timed.load_seconds > 0:
        parts.append(f"model loaded in {short_duration(timed.load_seconds)}")
    return f'<div class="facts">{fact_row(parts)}</div>'


def _check_note(translation: Translation) -> str:
    """Ask to check the whole translation, or name the sentences of several."""
    texts = [translation.text[slice(*pair.tgt)] for pair in translation.to_check]
    explained = f"the token probability is below {CHECK_BELOW:.0%}: {' '.join(texts)}"
    n_sentences = len(translation.sentences)
    said = "check this" if n_sentences == 1 else f"check {len(texts)} of {n_sentences} sentences"
    return f'<b class="unsure" title="{html.escape(explained)}">{said}</b>'


def fact_row(parts: Iterable[str]) -> str:
    """Render facts in a row; the style sheet adds separators."""
    return f"<div>{''.join(f'<span>{part}</span>' for part in parts)}</div>"

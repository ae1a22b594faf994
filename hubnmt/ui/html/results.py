"""Rendering of file results and comparisons as HTML."""

import html
from collections.abc import Sequence

from hubnmt.ui.html.facts import fact_row
from hubnmt.ui.services.files import FileJob, RowWarnings
from hubnmt.ui.services.text_format import sentence, short_duration
from hubnmt.ui.services.translate import Side, Span

MAX_WARNED = 20
"""Maximum rows of a file whose warnings are shown."""

# --- Files ---


def progress(at: FileJob) -> str:
    """Render the progress of a file job with the estimated remaining time."""
    remaining = ""
    if at.n_done:
        seconds = at.seconds / at.n_done * (at.n_rows - at.n_done)
        remaining = f", about {short_duration(seconds)} remaining"
    status = f"{at.n_done:,} of {at.n_rows:,} lines{remaining}"
    bar = (
        f'<progress max="{at.n_rows}" value="{at.n_done}" aria-label="Translated lines"></progress>'
    )
    return f'<div class="progress-line">{bar}<p role="status">{status}</p></div>'


def file_result(result: FileJob) -> str:
    """Render the result of a file job: its size and the rows with warnings."""
    is_cancelled = result.n_done < result.n_rows
    of = f" of {result.n_rows:,}" if is_cancelled else ""
    end = ", then cancelled" if is_cancelled else ""
    duration = short_duration(result.seconds)
    parts = [f"<b>{result.n_done:,}{of} lines</b> translated in {duration}{end}"]
    if result.warnings:
        parts.append(f"{len(result.warnings):,} with a warning")
    done = f'<div role="status">{fact_row(parts)}</div>'
    return done + _warned(result.warnings)


def _warned(warned: Sequence[RowWarnings]) -> str:
    if not warned:
        return ""
    rows = ""
    for row, warnings in warned[:MAX_WARNED]:
        text = html.escape(" ".join(map(sentence, warnings)))
        rows += f'<tr><td>{row:,}</td><td dir="auto">{text}</td></tr>'
    rest = len(warned) - MAX_WARNED
    more = f'<p class="hint">{rest:,} more rows have warnings.</p>' if rest > 0 else ""
    return (
        '<h3>Warnings</h3><div class="scroll" tabindex="0" role="region" aria-label="Warnings">'
        '<table class="sentences"><thead><tr><th scope="col">Row</th><th scope="col">Warning</th>'
        f"</tr></thead><tbody>{rows}</tbody></table></div>{more}"
    )


# --- Compare ---


def comparison(sides: Sequence[Side]) -> str:
    """Render two translations with highlighted differences."""
    columns = "".join(_side(name, side) for name, side in zip("AB", sides, strict=True))
    if len({side.timed.translation.text for side in sides}) == 1:
        status = "Both translations are identical."
    elif any(span.is_different for side in sides for span in side.spans):
        status = "Words that occur in only one translation are highlighted."
    else:
        status = "The texts are too long to highlight differences."
    return f'<div class="sides">{columns}</div><p class="hint" role="status">{status}</p>'


def _side(name: str, side: Side) -> str:
    translation = side.timed.translation
    n_tokens = f"{len(translation.tgt_tokens)} tokens"
    facts = fact_row([html.escape(side.model), short_duration(side.timed.seconds), n_tokens])
    text = "".join(map(_span, side.spans)) or '<span class="nothing">(empty)</span>'
    notes = (*translation.warnings, side.settings)
    hints = "".join(f'<p class="hint">{html.escape(note)}</p>' for note in notes)
    return (
        f'<section class="side-card" aria-label="Translation {name}"><h3>{name}</h3>'
        f'<p class="said" dir="auto">{text}</p>{hints}{facts}</section>'
    )


def _span(span: Span) -> str:
    text = html.escape(span.text)
    return f"<mark>{text}</mark>" if span.is_different and span.text.strip() else text

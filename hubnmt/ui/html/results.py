"""Rendering of search results, file results, comparisons and network diagrams."""

import html
from collections.abc import Sequence
from itertools import groupby

from hubnmt.model.trace import Shape, Stage
from hubnmt.types import PairScore
from hubnmt.ui.html.facts import fact_row
from hubnmt.ui.services.compare import Side, Span
from hubnmt.ui.services.files import FileProgress, FileResult, RowWarnings
from hubnmt.ui.services.learn import NetworkShapes
from hubnmt.ui.services.text_format import sentence, short_count, short_duration

MAX_WARNED = 20
"""Maximum rows of a file whose warnings are shown."""

PART_NAMES = {"encoder": "Encoder", "decoder": "Decoder", "output": "Output"}

# --- Files ---


def progress(at: FileProgress) -> str:
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


def file_result(result: FileResult) -> str:
    """Render the result of a file job: its size, rows with warnings."""
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
    names = ("Row", "Warning")
    rows = [
        [f"{row:,}", " ".join(map(sentence, warnings))] for row, warnings in warned[:MAX_WARNED]
    ]
    rest = len(warned) - MAX_WARNED
    more = f'<p class="hint">{rest:,} more rows have warnings.</p>' if rest > 0 else ""
    return _table("Warnings", names, rows, "warned") + more


def _table(title: str, names: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    """Render a table of texts; narrow screens scroll it, or show it as a list with the names."""
    title, names = html.escape(title), [html.escape(name) for name in names]
    heads = "".join(f'<th scope="col">{name}</th>' for name in names)
    body = ""
    for row in rows:
        cells = (
            f'<td dir="auto" data-name="{name}">{html.escape(text)}</td>'
            for name, text in zip(names, row, strict=True)
        )
        body += f"<tr>{''.join(cells)}</tr>"
    return (
        f'<h3>{title}</h3><div class="scroll" tabindex="0" role="region" aria-label="{title}">'
        f'<table class="sentences {kind}"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


# --- Compare ---


def comparison(sides: tuple[Side, Side]) -> str:
    """Render two translations with highlighted differences and their scores under both models."""
    columns = "".join(_side(name, side) for name, side in zip("AB", sides, strict=True))
    is_same = sides[0].timed.translation.text == sides[1].timed.translation.text
    if is_same:
        status = "Both translations are identical."
    elif any(span.is_different for side in sides for span in side.spans):
        status = "Words that occur in only one translation are highlighted."
    else:
        status = "The texts are too long to highlight differences."
    return (
        f'<div class="sides">{columns}</div><p class="hint" role="status">{status}</p>'
        f"{_score_table(sides)}"
    )


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


def _score_table(sides: tuple[Side, Side]) -> str:
    """Tabulate translations by models; one column if both sides use the same model."""
    scorers = [0] if sides[0].model == sides[1].model else [0, 1]
    names = ["Log-probability of", *(f"under {sides[n].model}" for n in scorers)]
    rows = [
        [f"translation {name}", *(_score(side.scores[n]) for n in scorers)]
        for name, side in zip("AB", sides, strict=True)
    ]
    note = (
        "A log-probability closer to 0 is more probable. Perplexity is per token; 1 is the minimum."
    )
    return f'{_table("Scores under each model", names, rows)}<p class="hint">{note}</p>'


def _score(score: PairScore | None) -> str:
    if score is None:
        return "not scored: empty or too long"
    minus = f"{score.log_prob:.2f}".replace("-", "−")
    return f"{minus}, perplexity {score.perplexity:.2f}"


# --- Learn ---


def diagram(network: NetworkShapes) -> str:
    """Render the network's stages with their tensor shapes for one sentence pair."""
    columns = []
    for part, stages in groupby(network.stages, key=lambda stage: stage.part):
        layers = "".join(
            _layer(number, list(group))
            for number, group in groupby(stages, key=lambda stage: stage.layer)
        )
        title = PART_NAMES[part]
        columns.append(
            f'<section class="part {part}" aria-label="{title}"><h3>{title}</h3>{layers}</section>'
        )
    sentence = f'<p class="hint">For <q dir="auto">{html.escape(network.src[:200])}</q></p>'
    return f'{sentence}{_dimensions(network)}<div class="diagram">{"".join(columns)}</div>'


def _dimensions(network: NetworkShapes) -> str:
    """Explain the dimensions that occur in the shapes."""
    config = network.config
    sizes = (
        ("1", "batch size"),
        (network.n_src_tokens, "source tokens"),
        (network.n_tgt_tokens, "target tokens"),
        (config.d_model, "model dimension"),
        (config.n_heads, "heads"),
        (config.d_model // config.n_heads, "dimensions per head"),
        (config.d_ff, "feed-forward dimension"),
        (f"{config.tgt_vocab_size:,}", "vocabulary size"),
    )
    parts = [f"<b>{size}</b> {name}" for size, name in sizes]
    return fact_row(parts)


def _layer(number: int | None, stages: list[Stage]) -> str:
    inside = "".join(map(_stage, stages))
    if number is None:
        return inside
    count = short_count(sum(stage.n_parameters for stage in stages))
    is_open = ' open=""' if number == 1 else ""
    return (
        f"<details{is_open}>"
        f"<summary>Layer {number} <span>{count} parameters</span></summary>{inside}</details>"
    )


def _stage(stage: Stage) -> str:
    shapes = "".join(_shape(name, shape) for name, shape in stage.shapes.items())
    count = f"<span>{short_count(stage.n_parameters)}</span>" if stage.n_parameters else ""
    return f'<div class="stage"><p>{stage.name}{count}</p><dl>{shapes}</dl></div>'


def _shape(name: str, shape: Shape) -> str:
    sizes = " × ".join(f"{size:,}" for size in shape)
    return f"<div><dt>{name}</dt><dd>{sizes}</dd></div>"

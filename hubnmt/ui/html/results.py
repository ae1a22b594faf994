"""What Files, Compare and Learn show: values to pieces of HTML.

Takes what `files`, `compare`, `learn` and `runs` give. Whatever comes from outside (texts, names,
cells of a file) is escaped here where it becomes HTML. Must not know Gradio or torch.
"""

import html
from collections.abc import Sequence
from itertools import groupby

from hubnmt.model.shape_trace import NamedShape, Stage
from hubnmt.types import PairScore
from hubnmt.ui.html.attention import fact_row, short_count, short_duration
from hubnmt.ui.html.charts import line_chart
from hubnmt.ui.services.compare import Side, Span
from hubnmt.ui.services.files import FileProgress, FileResult, Worst
from hubnmt.ui.services.learn import Anatomy
from hubnmt.ui.services.training_runs import Run, Sample

PART_NAMES = {"encoder": "Encoder", "decoder": "Decoder", "output": "Output"}

# --- The model ---


def searched(typed: str, n_found: int | None, *, at_most: int) -> str:
    """Say what a search of the Hub found; None: it is not known yet."""
    what = f"“{typed}”"
    if n_found is None:
        said = f"Searching the Hub for {what} …"
    elif n_found == 0:
        said = f"The Hub has no model of hubnmt for {what}; try another word, or user/ for a user."
    elif n_found < at_most:
        said = f"On the Hub for {what}; choosing one fetches and opens it."
    else:
        said = f"The last changed {at_most} on the Hub for {what}; say more of the name for others."
    return f'<p class="hint" role="status">{html.escape(said)}</p>'


# --- Files ---


def progress(at: FileProgress) -> str:
    """Show how far a file is, and about how long it will take."""
    left = ""
    if at.n_done:
        remaining = at.seconds / at.n_done * (at.n_rows - at.n_done)
        left = f", about {short_duration(remaining)} to go"
    said = f"{at.n_done:,} of {at.n_rows:,} lines{left}"
    bar = (
        f'<progress max="{at.n_rows}" value="{at.n_done}" aria-label="Translated lines"></progress>'
    )
    return f'<div class="progress-line">{bar}<p role="status">{said}</p></div>'


def file_result(result: FileResult) -> str:
    """Show what became of a file: its numbers, its scores, and the worst sentences."""
    speed = result.n_rows / result.seconds if result.seconds else 0
    parts = [
        f"<b>{result.n_rows:,} lines</b> translated in {short_duration(result.seconds)}",
        f"{speed:.0f} lines/s",
    ]
    if result.n_warnings:
        parts.append(f"{result.n_warnings:,} with a warning")
    done = f'<div class="facts" role="status">{fact_row(parts)}</div>'
    return done + _scores(result) + _worst(result.worst)


def _scores(result: FileResult) -> str:
    if result.scores is None:
        return ""
    scores = result.scores
    rows = (
        ("BLEU", scores.bleu, scores.bleu_signature),
        ("chrF", scores.chrf, scores.chrf_signature),
    )
    items = "".join(
        f"<div><dt>{name}</dt>"
        f"<dd><b>{value:.1f}</b> <code>{html.escape(signature)}</code></dd></div>"
        for name, value, signature in rows
    )
    return f'<dl class="scores">{items}</dl>'


def _worst(worst: Sequence[Worst]) -> str:
    if not worst:
        return ""
    names = ("Row", "chrF", "Source", "Translation", "Reference")
    rows = "".join(
        f'<tr><td data-name="{names[0]}">{each.row:,}</td>'
        f'<td data-name="{names[1]}">{each.chrf:.1f}</td>{_cells(each[2:], names[2:])}</tr>'
        for each in worst
    )
    title = "The worst sentence" if len(worst) == 1 else f"The {len(worst)} worst sentences"
    return _table(title, _heads(*names), rows, kind="worst")


def _table(title: str, head: str, rows: str, *, kind: str = "") -> str:
    """Set a table that scrolls sideways by itself where the page is too narrow for it."""
    name = html.escape(title)
    return (
        f'<h3>{name}</h3><div class="scroll" tabindex="0" role="region" aria-label="{name}">'
        f'<table class="sentences {kind}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _heads(*names: str) -> str:
    return "".join(f'<th scope="col">{name}</th>' for name in names)


def _cells(texts: Sequence[str], names: Sequence[str]) -> str:
    """Set texts into cells; a narrow screen, where a table becomes a list, names each."""
    return "".join(
        f'<td dir="auto" data-name="{name}">{html.escape(text)}</td>'
        for text, name in zip(texts, names, strict=True)
    )


# --- Compare ---


def comparison(sides: tuple[Side, Side]) -> str:
    """Show two translations with their differences marked, and what each model thinks of both."""
    columns = "".join(_side(name, side) for name, side in zip("AB", sides, strict=True))
    is_same = sides[0].timed.translation.text == sides[1].timed.translation.text
    if is_same:
        said = "Both say the same."
    elif any(span.is_different for side in sides for span in side.spans):
        said = "Marked words stand in one of the two only."
    else:
        said = "Too long for its differences to be marked."
    return (
        f'<div class="sides">{columns}</div><p class="hint" role="status">{said}</p>'
        f"{_verdicts(sides)}"
    )


def _side(name: str, side: Side) -> str:
    facts = fact_row(
        [
            html.escape(side.model),
            short_duration(side.timed.seconds),
            f"{len(side.timed.translation.tgt_tokens)} tokens",
        ]
    )
    text = "".join(map(_span, side.spans)) or '<span class="nothing">(nothing)</span>'
    warnings = "".join(
        f'<p class="hint">{html.escape(each)}</p>' for each in side.timed.translation.warnings
    )
    return (
        f'<section class="side-card" aria-label="Translation {name}"><h3>{name}</h3>'
        f'<p class="said" dir="auto">{text}</p>{warnings}<div class="facts">{facts}</div></section>'
    )


def _span(span: Span) -> str:
    said = html.escape(span.text)
    return f"<mark>{said}</mark>" if span.is_different and span.text.strip() else said


def _verdicts(sides: tuple[Side, Side]) -> str:
    """Set each translation against each model; one column where both sides use the same model."""
    judges = [0] if sides[0].model == sides[1].model else [0, 1]
    head = _heads("Log-probability of", *(f"under {html.escape(sides[n].model)}" for n in judges))
    rows = "".join(
        f'<tr><th scope="row">translation {name}</th>'
        + "".join(f"<td>{_verdict(side.scores[n])}</td>" for n in judges)
        + "</tr>"
        for name, side in zip("AB", sides, strict=True)
    )
    note = (
        "The nearer to 0, the more probable; perplexity says the same per token, and 1 is certain."
    )
    return f'{_table("Each under the other", head, rows)}<p class="hint">{note}</p>'


def _verdict(score: PairScore | None) -> str:
    if score is None:
        return "not scored: empty or too long"
    minus = f"{score.log_prob:.2f}".replace("-", "−")
    return f"<b>{minus}</b>, perplexity {score.perplexity:.2f}"


# --- Learn ---


def diagram(anatomy: Anatomy) -> str:
    """Draw the network as it worked on one sentence: every stage with the shapes it makes."""
    columns = []
    for part, stages in groupby(anatomy.stages, key=lambda stage: stage.part):
        layers = "".join(
            _layer(number, list(group))
            for number, group in groupby(stages, key=lambda stage: stage.layer)
        )
        title = PART_NAMES[part]
        columns.append(
            f'<section class="part {part}" aria-label="{title}"><h3>{title}</h3>{layers}</section>'
        )
    sentence = f'<p class="hint">For <q dir="auto">{html.escape(anatomy.src[:200])}</q></p>'
    return f'{sentence}{_letters(anatomy)}<div class="diagram">{"".join(columns)}</div>'


def _letters(anatomy: Anatomy) -> str:
    """Say what the sizes in the shapes are."""
    config = anatomy.config
    sizes = (
        ("1", "sentence"),
        (anatomy.n_src_tokens, "source tokens"),
        (anatomy.n_tgt_tokens, "target tokens"),
        (config.d_model, "features of a vector"),
        (config.n_heads, "heads"),
        (config.d_model // config.n_heads, "features of a head"),
        (config.d_ff, "inner features"),
        (f"{config.tgt_vocab_size:,}", "pieces in the vocabulary"),
    )
    parts = [f"<b>{size}</b> {name}" for size, name in sizes]
    return f'<div class="facts">{fact_row(parts)}</div>'


def _layer(number: int | None, stages: list[Stage]) -> str:
    inside = "".join(map(_stage, stages))
    if number is None:
        return inside
    count = short_count(sum(stage.n_parameters for stage in stages))
    return (
        f"<details{_open(number == 1)}>"
        f"<summary>Layer {number} <span>{count} parameters</span></summary>{inside}</details>"
    )


def _open(is_open: bool) -> str:
    return ' open=""' if is_open else ""


def _stage(stage: Stage) -> str:
    shapes = "".join(map(_shape, stage.tensors))
    count = f"<span>{short_count(stage.n_parameters)}</span>" if stage.n_parameters else ""
    return f'<div class="stage"><p>{stage.name}{count}</p><dl>{shapes}</dl></div>'


def _shape(tensor: NamedShape) -> str:
    sizes = " × ".join(f"{size:,}" for size in tensor.shape)
    return f"<div><dt>{tensor.name}</dt><dd>{sizes}</dd></div>"


def run(found: Run) -> str:
    """Show how a model was trained: its curves, and its samples as they changed."""
    curves = found.curves
    losses = {"training": curves.get("loss", ()), "validation": curves.get("dev_loss", ())}
    scores = {"BLEU": curves.get("bleu", ()), "chrF": curves.get("chrf", ())}
    charts = line_chart("Loss, nats per token", losses, x_label="step") + line_chart(
        "Scores on the validation set", scores, x_label="step"
    )
    return f'<div class="charts">{charts}</div>{_histories(found.samples)}'


def _histories(samples: Sequence[Sample]) -> str:
    if not samples:
        return ""
    items = "".join(_history(sample, is_open=n == 0) for n, sample in enumerate(samples))
    return f"<h3>The same sentences as the model learns</h3>{items}"


def _history(sample: Sample, *, is_open: bool) -> str:
    rows = "".join(
        f'<tr><th scope="row">step {step:,}</th>{_cells([text], [""])}</tr>'
        for step, text in sample.translations
    )
    rows += f'<tr><th scope="row">reference</th>{_cells([sample.reference], [""])}</tr>'
    return (
        f'<details{_open(is_open)}><summary dir="auto">{html.escape(sample.src)}'
        f'</summary><table class="sentences"><tbody>{rows}</tbody></table></details>'
    )

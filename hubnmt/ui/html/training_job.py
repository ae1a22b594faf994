"""Rendering of the Train tab: the cleaning report, the state of a run, and its scores."""

import html
from collections.abc import Sequence
from typing import Any

from hubnmt.text.languages import language_name
from hubnmt.ui.services.training_jobs import Job

FEW_PAIRS = 1_000
"""Fewer pairs rarely give a model that translates new sentences."""
REASONS = {
    "empty": "one side is empty",
    "absurdly unequal": "one side is more than three times as long as the other",
    "source = target": "both sides are the same",
    "wrong script": "a side is not in the script of its language",
    "duplicate": "the pair occurred before",
    "not valid UTF-8": "damaged characters; save the file as UTF-8",
}
"""Reasons of `training.data.cleaning` in plain words."""


def import_report(report: dict[str, Any]) -> str:
    """Render what was read, kept and dropped, with examples."""
    src, tgt = map(language_name, report["languages"])
    parts = [
        f"<p><b>{report['n_kept']:,} of {report['n_read']:,} pairs</b> are kept: {src} to {tgt}, "
        f"{report['n_train']:,} to learn from and {report['n_valid']:,} to measure with, which "
        "share no sentence.</p>"
    ]
    if report["n_kept"] < FEW_PAIRS:
        parts.append(
            f'<div class="notice warning" role="status"><p>Fewer than {FEW_PAIRS:,} pairs: the '
            "model will learn these sentences, and little beyond them.</p></div>"
        )
    rows = [("kept", *pair) for pair in report["kept_examples"]]
    for reason, count in report["dropped"].items():
        said = f"{count:,} dropped: {REASONS.get(reason, reason)}"
        examples = report["examples"].get(reason, [])
        rows += [(said, *pair) for pair in examples]
    return f'<div class="train-report">{"".join(parts)}{table(("", src, tgt), rows)}</div>'


def job_state(job: Job) -> str:
    """Render state, time and last message of a run."""
    left = ""
    if job.state == "training" and job.max_minutes is not None:
        left = f", about {max(0.0, job.max_minutes - job.minutes):.1f} minutes left"
    message = "" if job.state == "finished" else html.escape(job.message[:300])
    return (
        f'<div class="train-state {job.state}" role="status"><p><b>{html.escape(job.name)}</b> '
        f'{job.state}{left}</p><p class="hint">{message}</p></div>'
    )


def link(url: str, said: str) -> str:
    """Render a link with what is there."""
    return f'<p><a href="{html.escape(url)}" target="_blank">{html.escape(said)}</a></p>'


def score_table(scores: Sequence[tuple[str, float, float]]) -> str:
    """Render scores on the validation set: name, BLEU, chrF."""
    rows = [(name, f"{bleu:.1f}", f"{chrf:.1f}") for name, bleu, chrf in scores]
    return table(("On the validation set", "BLEU", "chrF"), rows) if rows else ""


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Render a table of texts."""
    names = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in head)
    body = "".join(
        "<tr>" + "".join(f'<td dir="auto">{html.escape(text)}</td>' for text in row) + "</tr>"
        for row in rows
    )
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Table"><table class='
        f'"train-table"><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table></div>'
    )

"""Rendering of a training run: curves, and the objective with the run's own numbers.

Source of label smoothing: Szegedy et al. 2016, section 7, https://arxiv.org/abs/1512.00567
"""

import html
import math
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hubnmt.ui.services.training_runs import Recipe, Run

Points = Sequence[tuple[float, float]]

NO_RECIPE = (
    "The record has no recipe, so label smoothing and the settings of the learning rate are "
    "unknown."
)
NO_RATES = "The record has no learning rates."

MIN_DISTANCE_NATS = 0.4
"""Marks that are closer would overlap."""

MAX_NATS = 50
"""Larger losses are not those of a language model, and would flatten the curve."""

N_POINTS = 100
"""Points of a curve of a function; with so many its bends look smooth."""


def run(found: Run) -> str:
    """Render the curves of a run, the loss of one token, label smoothing and learning rate."""
    curves = found.curves
    charts = [
        progress(found),
        _token_loss(curves.get("dev_loss", ())),
        _label_smoothing(found.recipe),
        _learning_rate(curves.get("lr", ()), found.recipe),
    ]
    missing = [NO_RECIPE] * (found.recipe is None) + [NO_RATES] * (not curves.get("lr"))
    notes = "".join(f'<p class="hint">{note}</p>' for note in missing)
    return f'{_stage(found.recipe)}<div class="charts">{"".join(charts)}</div>{notes}'


def progress(found: Run) -> str:
    """Render the charts of loss and scores by step."""
    curves = found.curves
    losses = {"training": curves.get("loss", ()), "validation": curves.get("dev_loss", ())}
    scores = {"BLEU": curves.get("bleu", ()), "chrF": curves.get("chrf", ())}
    return line_chart("Loss (nats per token)", losses, x_label="step") + line_chart(
        "Scores on the validation set", scores, x_label="step"
    )


def _stage(recipe: Recipe | None) -> str:
    """Say that the record is only the last stage of training, if it is."""
    if recipe is None or not recipe.started_from:
        return ""
    text = (
        f"The last stage of training, fine-tuned from {recipe.started_from}: step 0 is that model. "
        "The stages before have records of their own."
    )
    return f'<p class="hint stage-note">{html.escape(text)}</p>'


def _token_loss(dev_loss: Points) -> str:
    """Draw the loss of one token by its probability, with the run's validation losses marked."""
    marks = {}
    note = "The loss of a token is minus the logarithm of its probability."
    if dev_loss:
        (_, first), (_, last) = dev_loss[0], dev_loss[-1]
        named = {"first validation": first, "last validation": last}
        if abs(first - last) < MIN_DISTANCE_NATS:
            named = {"validation": last}
        marks = {
            name: (math.exp(-loss), loss) for name, loss in named.items() if 0 <= loss < MAX_NATS
        }
        if 0 <= last < MAX_NATS:
            note += (
                f" Last validation: {last:.2f} nats per token, so the correct token gets "
                f"{math.exp(-last):.1%} in geometric mean; perplexity {math.exp(last):.1f}."
            )
    curve = {"−log p": loss_curve(0.0, 2)}
    title = "Loss of one token (nats)"
    return line_chart(title, curve, x_label="probability p", marks=marks, note=note)


def _label_smoothing(recipe: Recipe | None) -> str:
    if recipe is None or recipe.label_smoothing is None or recipe.vocab_size is None:
        return ""
    smoothing, size = recipe.label_smoothing, recipe.vocab_size
    curves = {"without": loss_curve(0.0, size)}
    note = "This run used no label smoothing."
    if smoothing:
        correct, other = _target_probabilities(smoothing, size)
        least = token_loss(correct, smoothing, size)  # the entropy of the target
        curves[f"label smoothing {smoothing:g}"] = loss_curve(smoothing, size)
        note = (
            f"This run's target: {correct:.1%} for the correct token, {other:.2g} for each of the "
            f"other {size - 1:,}. The training loss cannot fall below {least:.2f} nats per token, "
            f"and rises again where the probability exceeds {correct:.0%}."
        )
    title = "Label smoothing (nats)"
    return line_chart(title, curves, x_label="probability of the correct token", note=note)


def _learning_rate(rates: Points, recipe: Recipe | None) -> str:
    parts = []
    if recipe is not None:
        parts += [f"Schedule: {recipe.schedule}"] if recipe.schedule else []
        parts += [] if recipe.lr is None else [f"lr {recipe.lr:g}"]
        warmup = recipe.warmup_steps
        parts += [] if warmup is None else [f"{warmup:,.0f} warm-up steps"]
    note = f"{', '.join(parts)}." if parts else ""
    return line_chart("Learning rate", {"rate": rates}, x_label="step", note=note)


def _target_probabilities(label_smoothing: float, vocab_size: int) -> tuple[float, float]:
    """Return the target probability of the correct token, and that of every other token."""
    other = label_smoothing / vocab_size
    return 1 - label_smoothing + other, other


def token_loss(probability: float, label_smoothing: float, vocab_size: int) -> float:
    """Return the loss of one token, in nats, if all wrong tokens are equally probable.

    `probability` is that of the correct token, above 0 and below 1; `vocab_size` is at least 2.
    """
    correct, other = _target_probabilities(label_smoothing, vocab_size)
    n_wrong = vocab_size - 1
    wrong_log_prob = math.log((1 - probability) / n_wrong)
    return -correct * math.log(probability) - n_wrong * other * wrong_log_prob


def loss_curve(label_smoothing: float, vocab_size: int) -> list[tuple[float, float]]:
    """Return the loss of one token by its probability, as (probability, nats)."""
    probabilities = [(n + 0.5) / N_POINTS for n in range(N_POINTS)]
    return [(p, token_loss(p, label_smoothing, vocab_size)) for p in probabilities]


# --- Line charts as SVG, coloured by the style sheet ---

WIDTH, HEIGHT = 420, 230
LEFT, RIGHT, TOP, BOTTOM = 44, WIDTH - 12, 12, HEIGHT - 34
"""Edges of the plot."""

MAX_DRAWN_POINTS = 400
"""Further points would share pixels."""

MAX_NUMBER = 1e12
"""Points beyond this magnitude are omitted as outliers, because they would compress the axes."""


class _Axis(NamedTuple):
    """A linear axis from `low` to `high` that is drawn from pixel `start` to pixel `end`."""

    low: float
    high: float
    step: float
    start: float
    end: float

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float) -> "_Axis":
        """Round the limits to ticks."""
        low, high = min(values), max(values)
        step = _round_step(high - low)
        low = math.floor(low / step) * step
        return cls(low, max(math.ceil(high / step) * step, low + step), step, start, end)

    def pixel(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        """Return pixel and label of each tick."""
        n_ticks = round((self.high - self.low) / self.step) + 1
        values = [self.low + n * self.step for n in range(n_ticks)]
        return [(self.pixel(value), _short(value)) for value in values]


def line_chart(
    title: str,
    curves: Mapping[str, Points],
    *,
    x_label: str,
    marks: Mapping[str, tuple[float, float]] | None = None,
    note: str = "",
) -> str:
    """Draw curves on common axes with a legend; empty if no curve has points.

    `curves` maps names to points in ascending order of x. Curves of a chart with marks or a note
    are functions, whose last value the legend does not show.
    """
    in_range = {
        name: [point for point in points if all(abs(n) <= MAX_NUMBER for n in point)]
        for name, points in curves.items()
    }
    drawn = {name: _thin(points) for name, points in in_range.items() if points}
    if not drawn:
        return ""
    marks = marks or {}
    ends = [*(point for points in drawn.values() for point in points), *marks.values()]
    x_axis = _Axis.over([0, *(x for x, _ in ends)], LEFT, RIGHT)
    y_axis = _Axis.over([y for _, y in ends], BOTTOM, TOP)
    shapes = [_grid(x_axis, y_axis, x_label)]
    shapes += [_curve(points, x_axis, y_axis, n) for n, points in enumerate(drawn.values())]
    shapes += [_mark(name, x_axis.pixel(x), y_axis.pixel(y)) for name, (x, y) in marks.items()]
    summary = "; ".join(f"{name} from {p[0][1]:.3g} to {p[-1][1]:.3g}" for name, p in drawn.items())
    summary += "".join(f"; {name}: {x:.3g}, {y:.3g}" for name, (x, y) in marks.items())
    is_function = bool(marks or note)
    legend = "".join(
        f'<span class="series-{n}">{html.escape(name)}'
        f"{'' if is_function else f' <b>{points[-1][1]:.4g}</b>'}</span>"
        for n, (name, points) in enumerate(drawn.items())
    )
    label = html.escape(f"{title}: {summary}")
    below = f"<p>{html.escape(note)}</p>" if note else ""
    return (
        f'<figure class="chart"><figcaption><h3>{html.escape(title)}</h3>'
        f'<span class="key">{legend}</span></figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
        f"{''.join(shapes)}</svg>{below}</figure>"
    )


def _round_step(span: float) -> float:
    """Return a tick distance of 1, 2 or 5 times a power of ten for about five ticks."""
    if span < sys.float_info.min:
        return 1.0
    rough = span / 5
    power = 10 ** math.floor(math.log10(rough))
    return float(next(m * power for m in (1, 2, 5, 10) if m * power >= rough))


def _text(x: float, y: float, text: str, attributes: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{html.escape(text)}</text>'


def _grid(x_axis: _Axis, y_axis: _Axis, x_label: str) -> str:
    shapes = []
    for y, label in y_axis.ticks():
        shapes.append(f'<path class="grid" d="M{LEFT} {y:.1f} H{RIGHT}"/>')
        shapes.append(_text(LEFT - 6, y, label, 'dy="0.35em" text-anchor="end"'))
    centred = 'text-anchor="middle"'
    shapes += [_text(x, BOTTOM + 15, label, centred) for x, label in x_axis.ticks()]
    return "".join([*shapes, _text((LEFT + RIGHT) / 2, HEIGHT - 4, x_label, centred)])


def _curve(points: Points, x_axis: _Axis, y_axis: _Axis, number: int) -> str:
    path = " L".join(f"{x_axis.pixel(x):.1f} {y_axis.pixel(y):.1f}" for x, y in points)
    return f'<path class="curve series-{number}" d="M{path}"/>'


def _mark(name: str, x: float, y: float) -> str:
    anchor, shift = ("start", 8) if x < WIDTH / 2 else ("end", -8)
    label = _text(x + shift, y - 6, name, f'class="mark" text-anchor="{anchor}"')
    return f'<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="4"/>{label}'


def _short(value: float) -> str:
    return f"{value / 1000:g}k" if abs(value) >= 1000 else f"{round(value, 6):g}"


def _thin(points: Points) -> Points:
    every = math.ceil(len(points) / MAX_DRAWN_POINTS)
    return [*points[:-1:every], points[-1]]

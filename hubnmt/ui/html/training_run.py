"""Rendering of a training run: curves of loss and scores as SVG, coloured by the style sheet."""

import html
import math
from collections.abc import Callable, Mapping, Sequence

from hubnmt.ui.services.training_runs import Points, Run

WIDTH, HEIGHT = 420, 230
LEFT, RIGHT, TOP, BOTTOM = 44, WIDTH - 12, 12, HEIGHT - 34
"""Edges of the plot."""

MAX_DRAWN_POINTS = 400
"""Further points would share pixels."""


def run(found: Run) -> str:
    """Render the charts of a run; for the last of several stages with a note that it is that."""
    note = ""
    if found.started_from:
        text = (
            f"The last stage of training, fine-tuned from {found.started_from}: step 0 is that "
            "model. The stages before have records of their own."
        )
        note = f'<p class="hint stage-note">{html.escape(text)}</p>'
    return f'{note}<div class="charts">{progress(found)}</div>'


def progress(found: Run) -> str:
    """Render the charts of loss and scores by step."""
    curves = found.curves
    losses = {"training": curves.get("loss", ()), "validation": curves.get("dev_loss", ())}
    scores = {"BLEU": curves.get("bleu", ()), "chrF": curves.get("chrf", ())}
    return line_chart("Loss (nats per token)", losses) + line_chart(
        "Scores on the validation set", scores
    )


def line_chart(title: str, curves: Mapping[str, Points]) -> str:
    """Draw curves by step with a legend; empty if no curve has points.

    `curves` maps names to finite points in ascending order of steps.
    """
    drawn = {name: _thin(points) for name, points in curves.items() if points}
    if not drawn:
        return ""
    steps, values = zip(*(point for points in drawn.values() for point in points), strict=True)
    x_ticks, y_ticks = _ticks([0, *steps]), _ticks(values)
    x_pixel, y_pixel = _scale(x_ticks, LEFT, RIGHT), _scale(y_ticks, BOTTOM, TOP)
    shapes = [_grid_line(y_pixel(tick), _short(tick)) for tick in y_ticks]
    shapes += [_text(x_pixel(tick), BOTTOM + 15, _short(tick), "middle") for tick in x_ticks]
    shapes.append(_text((LEFT + RIGHT) / 2, HEIGHT - 4, "step", "middle"))
    legend, summary = [], []
    for n, (name, points) in enumerate(drawn.items()):
        path = " L".join(f"{x_pixel(x):.1f} {y_pixel(y):.1f}" for x, y in points)
        first, last = points[0][1], points[-1][1]
        shapes.append(f'<path class="curve series-{n}" d="M{path}"/>')
        legend.append(f'<span class="series-{n}">{html.escape(name)} <b>{last:.4g}</b></span>')
        summary.append(f"{name} from {first:.3g} to {last:.3g}")
    label = html.escape(f"{title}: {'; '.join(summary)}")
    return (
        f'<figure class="chart"><figcaption><h3>{html.escape(title)}</h3>'
        f'<span class="key">{"".join(legend)}</span></figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
        f"{''.join(shapes)}</svg></figure>"
    )


def _thin(points: Points) -> Points:
    every = math.ceil(len(points) / MAX_DRAWN_POINTS)
    return (*points[:-1:every], points[-1])


def _ticks(values: Sequence[float]) -> list[float]:
    """Return about five round numbers at equal distances that enclose the values."""
    low, high = min(values), max(values)
    span = max(high - low or 1.0, 1e-6 * max(abs(low), abs(high)))
    power = 10 ** math.floor(math.log10(span / 5))
    distance = next(m * power for m in (1, 2, 5, 10) if 5 * m * power >= span)
    first = math.floor(low / distance)
    last = max(math.ceil(high / distance), first + 1)
    return [n * distance for n in range(first, last + 1)]


def _scale(ticks: Sequence[float], start: float, end: float) -> Callable[[float], float]:
    """Return the map of values to pixels in which the first tick is at `start`."""
    low, high = ticks[0], ticks[-1]
    return lambda value: start + (value - low) / (high - low) * (end - start)


def _grid_line(y: float, label: str) -> str:
    line = f'<path class="grid" d="M{LEFT} {y:.1f} H{RIGHT}"/>'
    return line + _text(LEFT - 6, y + 4, label, "end")


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _short(value: float) -> str:
    return f"{value / 1000:g}k" if abs(value) >= 1000 else f"{round(value, 6):g}"

"""Line charts as SVG, coloured by the style sheet."""

import html
import math
import sys
from collections.abc import Iterator, Mapping, Sequence

Points = Sequence[tuple[float, float]]

WIDTH, HEIGHT = 420, 230
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 12, 34
MAX_DRAWN_POINTS = 400
"""Further points would share pixels."""
MAX_NUMBER = 1e12
"""Points beyond this magnitude are omitted as outliers, because they would compress the axes."""


def line_chart(
    title: str,
    curves: Mapping[str, Points],
    *,
    x_label: str,
    marks: Mapping[str, tuple[float, float]] | None = None,
    note: str = "",
) -> str:
    """Draw curves on common axes with a legend; empty if no curve has points.

    Args:
        title: heading, also used in the accessible description.
        curves: name -> points in ascending order of x.
        x_label: label of the horizontal axis.
        marks: label -> point to mark. Curves of a chart with marks or a note are functions, whose
            last value the legend does not show.
        note: sentence below the chart.
    """
    in_range = {
        name: [point for point in points if all(abs(n) <= MAX_NUMBER for n in point)]
        for name, points in curves.items()
    }
    drawn = {name: _thin(points) for name, points in in_range.items() if points}
    if not drawn:
        return ""
    marks = marks or {}
    ends = [point for points in drawn.values() for point in points] + list(marks.values())
    ys = [y for _, y in ends]
    x_axis, y_axis = _Axis(0, max(x for x, _ in ends), WIDTH), _Axis(min(ys), max(ys), HEIGHT)
    grid = [*_horizontal_marks(y_axis), *_vertical_marks(x_axis, x_label)]
    lines = [_line(points, x_axis, y_axis, n) for n, points in enumerate(drawn.values())]
    lines += [_mark(name, point, x_axis, y_axis) for name, point in marks.items()]
    summary = "; ".join(f"{name} from {p[0][1]:.3g} to {p[-1][1]:.3g}" for name, p in drawn.items())
    summary += "".join(f"; {name}: {x:.3g}, {y:.3g}" for name, (x, y) in marks.items())
    label = html.escape(f"{title}: {summary}")
    is_function = bool(marks or note)
    legend = "".join(
        f'<span class="series-{n}">{html.escape(name)}'
        f"{'' if is_function else f' <b>{points[-1][1]:.4g}</b>'}</span>"
        for n, (name, points) in enumerate(drawn.items())
    )
    below = f"<p>{html.escape(note)}</p>" if note else ""
    return (
        f'<figure class="chart"><figcaption><h3>{html.escape(title)}</h3>'
        f'<span class="key">{legend}</span></figcaption>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
        f"{''.join(grid)}{''.join(lines)}</svg>{below}</figure>"
    )


class _Axis:
    """A linear axis with rounded limits and ticks."""

    def __init__(self, low: float, high: float, length: int) -> None:
        self.step = _round_step(high - low)
        self.low = math.floor(low / self.step) * self.step
        self.high = max(math.ceil(high / self.step) * self.step, self.low + self.step)
        self._length = length

    def ticks(self) -> Iterator[float]:
        for n in range(round((self.high - self.low) / self.step) + 1):
            yield self.low + n * self.step

    def across(self, value: float) -> float:
        """Return the x coordinate of a value."""
        share = (value - self.low) / (self.high - self.low)
        return LEFT + share * (self._length - LEFT - RIGHT)

    def up(self, value: float) -> float:
        """Return the y coordinate of a value."""
        share = (value - self.low) / (self.high - self.low)
        return self._length - BOTTOM - share * (self._length - TOP - BOTTOM)


def _round_step(span: float) -> float:
    """Return a tick distance of 1, 2 or 5 times a power of ten for about five ticks."""
    if span < sys.float_info.min:
        return 1.0
    rough = span / 5
    power = 10 ** math.floor(math.log10(rough))
    return float(next(m * power for m in (1, 2, 5, 10) if m * power >= rough))


def _horizontal_marks(axis: _Axis) -> Iterator[str]:
    for value in axis.ticks():
        y = f"{axis.up(value):.1f}"
        yield f'<path class="grid" d="M{LEFT} {y} H{WIDTH - RIGHT}"/>'
        yield f'<text x="{LEFT - 6}" y="{y}" dy="0.35em" text-anchor="end">{_short(value)}</text>'


def _vertical_marks(axis: _Axis, label: str) -> Iterator[str]:
    for value in axis.ticks():
        x = f"{axis.across(value):.1f}"
        y = HEIGHT - BOTTOM + 15
        yield f'<text x="{x}" y="{y}" text-anchor="middle">{_short(value)}</text>'
    middle = (LEFT + WIDTH - RIGHT) / 2
    yield f'<text x="{middle}" y="{HEIGHT - 4}" text-anchor="middle">{html.escape(label)}</text>'


def _line(points: Points, x_axis: _Axis, y_axis: _Axis, number: int) -> str:
    path = " L".join(f"{x_axis.across(x):.1f} {y_axis.up(y):.1f}" for x, y in points)
    return f'<path class="curve series-{number}" d="M{path}"/>'


def _mark(name: str, point: tuple[float, float], x_axis: _Axis, y_axis: _Axis) -> str:
    x, y = x_axis.across(point[0]), y_axis.up(point[1])
    anchor, shift = ("start", 8) if x < WIDTH / 2 else ("end", -8)
    return (
        f'<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
        f'<text class="mark" x="{x + shift:.1f}" y="{y - 6:.1f}" text-anchor="{anchor}">'
        f"{html.escape(name)}</text>"
    )


def _short(value: float) -> str:
    return f"{value / 1000:g}k" if abs(value) >= 1000 else f"{round(value, 6):g}"


def _thin(points: Points) -> Points:
    every = math.ceil(len(points) / MAX_DRAWN_POINTS)
    return [*points[:-1:every], points[-1]]

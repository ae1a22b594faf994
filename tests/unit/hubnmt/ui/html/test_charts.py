import math
import re
from xml.etree import ElementTree

import pytest

from hubnmt.ui.html import charts
from hubnmt.ui.html.charts import line_chart


def _paths(figure: str) -> list[list[tuple[float, float]]]:
    root = ElementTree.fromstring(figure)
    curves = [p.get("d") or "" for p in root.iter("path") if "curve" in (p.get("class") or "")]
    return [
        [(float(x), float(y)) for x, y in re.findall(r"(-?[\d.]+) (-?[\d.]+)", curve)]
        for curve in curves
    ]


def test_points_lie_inside_and_in_proportion():
    (curve,) = _paths(line_chart("t", {"a": [(0, 0), (50, 5), (100, 10)]}, x_label="step"))
    (x0, y0), (x1, y1), (x2, y2) = curve
    assert (x1 - x0) == pytest.approx(x2 - x1, abs=0.2)
    assert (y0 - y1) == pytest.approx(y1 - y2, abs=0.2)
    assert y2 < y0
    assert all(0 <= x <= charts.WIDTH and 0 <= y <= charts.HEIGHT for x, y in curve)


@pytest.mark.parametrize("ends", [(3.0, 3.0), (0.0, 0.0), (1e-7, 2e-7), (-5.0, 1e6)])
def test_any_range_gets_round_ticks_that_hold_it(ends: tuple[float, float]):
    axis = charts._Axis(*ends, 100)
    ticks = list(axis.ticks())
    assert ticks[0] <= ends[0] * (1 + 1e-9)
    assert ticks[-1] >= ends[1] * (1 - 1e-9)
    assert 2 <= len(ticks) <= 9
    assert math.isclose(10 ** (math.log10(axis.step) % 1), round(10 ** (math.log10(axis.step) % 1)))


@pytest.mark.parametrize("far", [1e308, -1e308, math.inf, -math.inf, math.nan, 1e17])
def test_points_far_out_are_left_out(far: float):
    points = [(1, 2.0), (2, far), (3, 4.0), (far, 3.0)]
    assert line_chart("t", {"a": points}, x_label="x") == line_chart(
        "t", {"a": [(1, 2.0), (3, 4.0)]}, x_label="x"
    )
    assert line_chart("t", {"a": [(1, far)]}, x_label="x") == ""


@pytest.mark.parametrize("ends", [(1e-323, 2e-323), (-1e12, 1e12), (1e12, 1e12)])
def test_what_is_hardly_a_range_is_drawn(ends: tuple[float, float]):
    (curve,) = _paths(line_chart("t", {"a": [(1, ends[0]), (2, ends[1])]}, x_label="x"))
    assert all(0 <= y <= charts.HEIGHT for _, y in curve)


def test_no_points_draw_nothing_and_empty_curves_are_left_out():
    assert line_chart("t", {"a": []}, x_label="x") == ""
    assert len(_paths(line_chart("t", {"a": [], "b": [(1, 2)]}, x_label="x"))) == 1


def test_many_points_are_thinned_and_the_last_one_stays():
    points = [(n, n % 7) for n in range(5001)]
    (curve,) = _paths(line_chart("t", {"a": points}, x_label="x"))
    assert len(curve) <= charts.MAX_DRAWN_POINTS + 1
    assert curve[-1] == max(curve)


def test_names_are_escaped_and_told_to_who_cannot_see():
    figure = line_chart("<t>", {"<b>": [(0, 1), (1, 2)]}, x_label="<x>")
    assert "<b>&" not in figure
    root = ElementTree.fromstring(figure)
    label = next(svg.get("aria-label") for svg in root.iter("svg"))
    assert label == "<t>: <b> from 1 to 2"

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


def test_names_are_escaped_and_told_to_who_cannot_see():
    figure = line_chart("<t>", {"<b>": [(0, 1), (1, 2)]}, x_label="<x>")
    assert "<b>&" not in figure
    root = ElementTree.fromstring(figure)
    label = next(svg.get("aria-label") for svg in root.iter("svg"))
    assert label == "<t>: <b> from 1 to 2"

import math
from xml.etree import ElementTree

import pytest
import torch

from hubnmt.ui.html.training_run import line_chart, run, token_loss
from hubnmt.ui.services.training_runs import Recipe, Run
from training.optim.loss import projected_cross_entropy

MARKUP = "<img src=x onerror=alert(1)>"


def _text(page: str) -> str:
    """Read a piece of HTML as a browser would show it; fails where a tag is left open."""
    return " ".join(ElementTree.fromstring(f"<div>{page}</div>").itertext())


def test_a_run_shows_curves_and_the_objective_with_its_own_numbers():
    recipe = Recipe(
        label_smoothing=0.1,
        vocab_size=8017,
        schedule=MARKUP,
        lr=8e-4,
        warmup_steps=60,
        started_from="<i>de-en",
    )
    curves = {
        "loss": ((50, 3.2), (100, 3.1)),
        "dev_loss": ((0, 7.25), (100, 2.6)),
        "bleu": ((100, 18.8),),
        "lr": ((50, 6e-4), (100, 8e-4)),
    }
    page = run(Run(curves, (), (), recipe))
    said = _text(page)
    assert "fine-tuned from <i>de-en: step 0 is that model" in said
    assert page.count("<svg") == 5
    assert page.count("<circle") == 2
    for fact in ("2.60 nats", "7.4%", "perplexity 13.5", "90.0%", "8,016", "1.22 nats"):
        assert fact in said
    assert f"Schedule: {MARKUP}, lr 0.0008, 60 warm-up steps." in said
    assert "<img" not in page


V = 23


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("probability", [0.01, 0.3, 0.95])
def test_the_loss_of_a_token_is_that_of_training(label_smoothing: float, probability: float):
    wrong = (1 - probability) / (V - 1)
    logits = torch.full((1, V), wrong, dtype=torch.float64).log()
    logits[0, 5] = torch.tensor(probability, dtype=torch.float64).log()
    weight = torch.eye(V, dtype=torch.float64)
    label = torch.tensor([5])
    sums = projected_cross_entropy(logits, weight, label, label_smoothing=label_smoothing)
    expected = float(sums.smoothed)
    assert token_loss(probability, label_smoothing, V) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("far", [1e308, -1e308, math.inf, -math.inf, math.nan, 1e17])
def test_points_far_out_are_left_out(far: float):
    points = [(1, 2.0), (2, far), (3, 4.0), (far, 3.0)]
    assert line_chart("t", {"a": points}, x_label="x") == line_chart(
        "t", {"a": [(1, 2.0), (3, 4.0)]}, x_label="x"
    )
    assert line_chart("t", {"a": [(1, far)]}, x_label="x") == ""


def test_names_are_escaped_and_told_to_who_cannot_see():
    figure = line_chart("<t>", {"<b>": [(0, 1), (1, 2)]}, x_label="<x>")
    assert "<b>&" not in figure
    root = ElementTree.fromstring(figure)
    label = next(svg.get("aria-label") for svg in root.iter("svg"))
    assert label == "<t>: <b> from 1 to 2"

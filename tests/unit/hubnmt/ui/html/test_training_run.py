from xml.etree import ElementTree

import pytest
import torch

from hubnmt.ui.html.training_run import least_loss, loss_curve, run, token_loss
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


def test_no_loss_is_smaller_than_the_least():
    assert least_loss(0.0, V) == 0
    losses = [loss for _, loss in loss_curve(0.1, V)]
    assert min(losses) == pytest.approx(least_loss(0.1, V), abs=1e-3)
    assert min(losses) >= least_loss(0.1, V)
    assert losses[-1] > min(losses)

"""The loss that the page draws is the loss that training minimizes."""

import pytest
import torch

from hubnmt.ui.html.training_run import least_loss, loss_curve, token_loss
from training.optim.loss import projected_cross_entropy

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

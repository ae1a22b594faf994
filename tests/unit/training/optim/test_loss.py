"""Loss: the fused projection and loss say what torch's plain cross entropy says, slice by slice."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from training.optim import loss
from training.optim.loss import projected_cross_entropy

N, D, V = 11, 6, 17
SLICES = pytest.mark.parametrize("slice_tokens", [1, 10, 4096])
SMOOTHINGS = pytest.mark.parametrize("label_smoothing", [0.0, 0.1])


def random_inputs(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    hidden = torch.randn(N, D, dtype=dtype, requires_grad=True)
    weight = torch.randn(V, D, dtype=dtype, requires_grad=True)
    return hidden, weight, torch.randint(V, (N,))


def plain_loss(hidden: Tensor, weight: Tensor, labels: Tensor, label_smoothing: float) -> Tensor:
    return functional.cross_entropy(
        hidden @ weight.T, labels, label_smoothing=label_smoothing, reduction="sum"
    )


@SLICES
@SMOOTHINGS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_value_and_gradients_equal_torchs_cross_entropy(
    slice_tokens: int, label_smoothing: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss, "CPU_SLICE_TOKENS", slice_tokens)
    hidden, weight, labels = random_inputs(dtype)
    mine = projected_cross_entropy(hidden, weight, labels, label_smoothing=label_smoothing).smoothed
    theirs = plain_loss(hidden, weight, labels, label_smoothing)
    close = {"rtol": 1e-5, "atol": 1e-5, "check_dtype": False}  # sums are float32 by design
    torch.testing.assert_close(mine, theirs, **close)
    torch.testing.assert_close(
        torch.autograd.grad(mine, (hidden, weight)),
        torch.autograd.grad(theirs, (hidden, weight)),
        **close,
    )


def test_under_bfloat16_autocast_value_and_gradients_are_close(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loss, "CPU_SLICE_TOKENS", 40)
    hidden = torch.randn(100, 32, requires_grad=True)
    weight = (torch.randn(200, 32) / 32**0.5).requires_grad_()
    labels = torch.randint(200, (100,))
    theirs = plain_loss(hidden, weight, labels, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        mine, nll = projected_cross_entropy(hidden, weight, labels, label_smoothing=0.1)
    assert mine.dtype == nll.dtype == torch.float32
    assert mine.item() == pytest.approx(theirs.item(), rel=2e-3)
    for my_grad, their_grad in zip(
        torch.autograd.grad(mine, (hidden, weight)),
        torch.autograd.grad(theirs, (hidden, weight)),
        strict=True,
    ):
        assert my_grad.dtype == torch.float32
        cosine = functional.cosine_similarity(my_grad.flatten(), their_grad.flatten(), dim=0)
        assert cosine.item() > 0.9995
        assert my_grad.norm().item() == pytest.approx(their_grad.norm().item(), rel=0.01)

"""Loss: the fused projection and loss say what torch's plain cross entropy says, slice by slice."""

import math
from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from training.optim import loss
from training.optim.loss import projected_cross_entropy, symmetric_divergence

N, D, V = 11, 6, 17
SLICES = pytest.mark.parametrize("slice_tokens", [1, 3, 10, 11, 12, 4096])
SMOOTHINGS = pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.5, 1.0])


def random_inputs(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    hidden = torch.randn(N, D, dtype=dtype, requires_grad=True)
    weight = torch.randn(V, D, dtype=dtype, requires_grad=True)
    return hidden, weight, torch.randint(V, (N,))


def plain_loss(hidden: Tensor, weight: Tensor, labels: Tensor, label_smoothing: float) -> Tensor:
    return functional.cross_entropy(
        hidden @ weight.T, labels, label_smoothing=label_smoothing, reduction="sum"
    )


def loss_by_loop(hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float) -> float:
    """One token and one piece at a time: -sum of target probability times log probability."""
    total = 0.0
    for h, label in zip(hidden.tolist(), labels.tolist(), strict=True):
        logits = [sum(a * b for a, b in zip(h, row, strict=True)) for row in weight.tolist()]
        normalizer = math.log(sum(map(math.exp, logits)))
        for piece, logit in enumerate(logits):
            wanted = smoothing / V + (1 - smoothing) * (piece == label)
            total -= wanted * (logit - normalizer)
    return total


# --- against torch -------------------------------------------------------------------------------


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


@SMOOTHINGS
def test_value_equals_a_slow_loop(label_smoothing: float) -> None:
    inputs = random_inputs()
    mine = projected_cross_entropy(*inputs, label_smoothing=label_smoothing).smoothed
    assert mine.item() == pytest.approx(loss_by_loop(*inputs, label_smoothing), rel=1e-5)


@SMOOTHINGS
def test_nll_is_the_unsmoothed_loss(label_smoothing: float) -> None:
    inputs = random_inputs()
    nll = projected_cross_entropy(*inputs, label_smoothing=label_smoothing).nll
    torch.testing.assert_close(nll, plain_loss(*inputs, 0.0), rtol=1e-5, atol=0, check_dtype=False)


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


@pytest.mark.gpu
def test_on_a_gpu_under_autocast_value_and_gradients_are_close() -> None:
    hidden = torch.randn(100, 32, device="cuda", requires_grad=True)
    weight = (torch.randn(200, 32, device="cuda") / 32**0.5).requires_grad_()
    labels = torch.randint(200, (100,), device="cuda")
    theirs = plain_loss(hidden, weight, labels, 0.1)
    with torch.autocast("cuda", torch.bfloat16):
        mine = projected_cross_entropy(hidden, weight, labels, label_smoothing=0.1).smoothed
    assert mine.item() == pytest.approx(theirs.item(), rel=2e-3)
    mine_grad, their_grad = (torch.autograd.grad(x, weight)[0] for x in (mine, theirs))
    assert (mine_grad - their_grad).norm() < 0.02 * their_grad.norm()


# --- gradients -----------------------------------------------------------------------------------


def test_gradients_scale_with_what_the_loss_is_divided_by() -> None:
    hidden, weight, labels = random_inputs()

    def gradients(divisor: int) -> tuple[Tensor, ...]:
        sums = projected_cross_entropy(hidden, weight, labels, label_smoothing=0.1)
        return torch.autograd.grad(sums.smoothed / divisor, (hidden, weight))

    for whole, part in zip(gradients(1), gradients(7), strict=True):
        torch.testing.assert_close(part, whole / 7)


def test_gradient_reaches_only_what_asks_for_it() -> None:
    hidden, weight, labels = random_inputs()
    frozen = projected_cross_entropy(hidden, weight.detach(), labels, label_smoothing=0.1)
    frozen.smoothed.backward()
    assert hidden.grad is not None
    assert weight.grad is None
    frozen = projected_cross_entropy(hidden.detach(), weight, labels, label_smoothing=0.1)
    frozen.smoothed.backward()
    assert weight.grad is not None


def test_nll_has_no_gradient() -> None:
    sums = projected_cross_entropy(*random_inputs(), label_smoothing=0.1)
    assert sums.smoothed.requires_grad
    assert not sums.nll.requires_grad


def test_gradient_takes_the_type_of_its_tensor() -> None:
    hidden, weight, labels = random_inputs(torch.float32)
    half = hidden.detach().bfloat16().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        sums = projected_cross_entropy(half, weight, labels, label_smoothing=0.1)
    grads = torch.autograd.grad(sums.smoothed, (half, weight))
    assert [grad.dtype for grad in grads] == [torch.bfloat16, torch.float32]


class CountProducts(TorchDispatchMode):
    """Counts matrix products."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


def test_validation_does_not_pay_for_gradients() -> None:
    hidden, weight, labels = random_inputs()  # a model's parameters still want gradients
    with torch.no_grad(), CountProducts() as products:
        projected_cross_entropy(hidden, weight, labels, label_smoothing=0.1)
    assert products.calls["mm"] == 1  # the logits


# --- invariances ---------------------------------------------------------------------------------


@SLICES
def test_slices_do_not_change_the_result(
    slice_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = random_inputs()
    whole = projected_cross_entropy(*inputs, label_smoothing=0.1)
    monkeypatch.setattr(loss, "CPU_SLICE_TOKENS", slice_tokens)
    sliced = projected_cross_entropy(*inputs, label_smoothing=0.1)
    torch.testing.assert_close(sliced, whole)


def test_order_of_tokens_does_not_matter() -> None:
    hidden, weight, labels = random_inputs()
    order = torch.randperm(N)
    torch.testing.assert_close(
        projected_cross_entropy(hidden[order], weight, labels[order], label_smoothing=0.1),
        projected_cross_entropy(hidden, weight, labels, label_smoothing=0.1),
    )


def test_sums_of_parts_add_up() -> None:
    hidden, weight, labels = random_inputs()
    whole = projected_cross_entropy(hidden, weight, labels, label_smoothing=0.1)
    parts = [
        projected_cross_entropy(hidden[part], weight, labels[part], label_smoothing=0.1)
        for part in (slice(4), slice(4, N))
    ]
    for total, first, second in zip(whole, *parts, strict=True):
        torch.testing.assert_close(first + second, total)


def test_inputs_are_left_alone() -> None:
    inputs = random_inputs()
    before = [x.detach().clone() for x in inputs]
    projected_cross_entropy(*inputs, label_smoothing=0.1).smoothed.backward()
    assert all(torch.equal(x, old) for x, old in zip(inputs, before, strict=True))


# --- edges ---------------------------------------------------------------------------------------


def test_no_tokens_cost_nothing_and_pull_nowhere() -> None:
    hidden = torch.zeros(0, D, requires_grad=True)
    weight = torch.randn(V, D, requires_grad=True)
    labels = torch.zeros(0, dtype=torch.int64)
    sums = projected_cross_entropy(hidden, weight, labels, label_smoothing=0.1)
    assert (sums.smoothed.item(), sums.nll.item()) == (0, 0)
    grad_hidden, grad_weight = torch.autograd.grad(sums.smoothed, (hidden, weight))
    assert grad_hidden.shape == (0, D)
    assert not grad_weight.any()


def test_uniform_logits_cost_the_logarithm_of_the_vocabulary() -> None:
    hidden, weight, labels = torch.zeros(N, D), torch.randn(V, D), torch.randint(V, (N,))
    sums = projected_cross_entropy(hidden, weight, labels, label_smoothing=0.1)
    assert sums.nll.item() == pytest.approx(N * math.log(V), rel=1e-6)
    assert sums.smoothed.item() == pytest.approx(N * math.log(V), rel=1e-6)


@pytest.mark.parametrize("gap", [50.0, 80.0, 200.0])
def test_a_very_surprised_model_still_pays_the_true_price(gap: float) -> None:
    hidden = torch.tensor([[gap, 0.0]])
    weight = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    labels = torch.tensor([1])
    sums = projected_cross_entropy(hidden, weight, labels, label_smoothing=0.1)
    expected = plain_loss(hidden, weight, labels, 0.1).item()
    assert sums.smoothed.item() == pytest.approx(expected, rel=1e-4)
    assert sums.nll.item() == pytest.approx(gap, rel=1e-4)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_broken_model_shows_as_a_loss_that_is_not_finite(bad: float) -> None:
    hidden, weight, labels = (x.detach() for x in random_inputs())
    hidden[3, 2] = bad
    assert not projected_cross_entropy(
        hidden, weight, labels, label_smoothing=0.1
    ).smoothed.isfinite()


# --- two predictions of the same tokens ----------------------------------------------------------


@SLICES
def test_the_divergence_and_its_gradients_equal_torchs_kl_both_ways(
    slice_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss, "CPU_SLICE_TOKENS", slice_tokens)
    hidden, weight, _ = random_inputs()
    others = torch.randn(N, D, dtype=torch.float64, requires_grad=True)
    mine = symmetric_divergence(hidden, others, weight)
    p, q = ((each @ weight.T).log_softmax(-1) for each in (hidden, others))
    theirs = functional.kl_div(q, p, log_target=True, reduction="sum") + functional.kl_div(
        p, q, log_target=True, reduction="sum"
    )
    close = {"rtol": 1e-4, "atol": 1e-4, "check_dtype": False}  # the sums are float32 by design
    torch.testing.assert_close(mine, theirs, **close)
    inputs = (hidden, others, weight)
    torch.testing.assert_close(
        torch.autograd.grad(mine, inputs), torch.autograd.grad(theirs, inputs), **close
    )


def test_equal_predictions_do_not_diverge() -> None:
    hidden, weight, _ = random_inputs()
    assert symmetric_divergence(hidden, hidden.clone(), weight) == 0

"""A step: however its work is cut, the weights move the same way; broken numbers stop it."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.runs import MakeRun
from training.config.run import OptimizerConfig
from training.data.batching import Batch, collate
from training.optim.step import StepStats, rate_at
from training.run.trainer import Trainer


def collect(current: Trainer, rows: list[int]) -> Batch:
    run_data = current.run_data
    return collate([run_data.train[row] for row in rows], tokenizers=run_data.tokenizers)


def take(current: Trainer, *batches: list[int], lr: float = 0.01) -> StepStats:
    made = [collect(current, rows) for rows in batches]
    return current.stepper.finish_step(current.stepper.start_step(made, lr=lr), step=1)


def gradients_of(current: Trainer, *batches: list[int]) -> list[Tensor]:
    """The gradients that the optimizer gets to see."""
    found: list[Tensor] = []

    def remember(*_: object) -> None:
        found.extend(p.grad.clone() for p in current.stepper.parameters if p.grad is not None)

    handle = current.stepper.optimizer.register_step_pre_hook(remember)
    before = [parameter.detach().clone() for parameter in current.stepper.parameters]
    take(current, *batches, lr=0.0)
    handle.remove()
    assert all(map(torch.equal, before, current.stepper.parameters))
    return found


def test_accumulated_batches_pull_like_one_big_batch(make_run: MakeRun) -> None:
    current = make_run()
    parts = [[0, 1, 2, 3, 4], [5], [6, 7]]  # of different size: a mean of means would differ
    whole = gradients_of(current, [*range(8)])
    accumulated = gradients_of(current, *parts)
    assert len(whole) == len(list(current.model.parameters()))
    for mine, theirs in zip(accumulated, whole, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)


def test_the_loss_is_divided_by_the_real_tokens_of_the_step(make_run: MakeRun) -> None:
    current = make_run()
    batch = collect(current, [0, 1, 2])
    logits = current.model(batch.src.src_ids, batch.tgt_in, batch.src.src_pad_mask)
    labels = torch.full(batch.tgt_in.shape, -100)
    labels.view(-1)[batch.label_positions] = batch.labels
    expected = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=0.1)
    outcome = take(current, [0, 1, 2])
    assert outcome.loss == pytest.approx(expected.item(), rel=1e-5)
    assert outcome.n_tokens == sum(len(current.run_data.train[i][1]) + 1 for i in range(3))
    assert not outcome.wants_stop


def test_a_step_is_adamw_at_the_rate_asked_for(make_run: MakeRun) -> None:
    current = make_run()
    twin = [p.detach().clone().requires_grad_() for p in current.stepper.parameters]
    reference = torch.optim.AdamW(twin, lr=0.003, betas=(0.9, 0.98), weight_decay=0.0)
    for parameter, gradient in zip(twin, gradients_of(make_run(), [0, 1]), strict=True):
        parameter.grad = gradient
    reference.step()
    take(current, [0, 1], lr=0.003)
    torch.testing.assert_close(current.stepper.parameters, twin, rtol=1e-4, atol=1e-6)


def test_clipping_caps_the_norm_and_reports_the_norm_before(make_run: MakeRun) -> None:
    def norm_of(gradients: list[Tensor]) -> Tensor:
        return torch.cat([gradient.flatten() for gradient in gradients]).norm()

    free = gradients_of(make_run(), [0, 1, 2])
    current = make_run("optimizer.grad_clip_norm=0.01")
    clipped = gradients_of(current, [0, 1, 2])
    norm = norm_of(free)
    assert norm > 0.02
    assert norm_of(clipped).item() == pytest.approx(0.01, rel=1e-3)
    torch.testing.assert_close(clipped[0], free[0] * 0.01 / norm, rtol=1e-3, atol=1e-7)
    assert take(current, [0, 1, 2]).grad_norm == pytest.approx(norm.item(), rel=1e-5)


@pytest.mark.parametrize(
    ("settings", "rates"),
    [
        ({"schedule": "linear"}, [0.5, 2.0 * 0.75 / 0.9, 0.0]),
        ({"schedule": "inverse_sqrt"}, [0.5, 2.0, 1.0]),
        ({"schedule": "constant"}, [0.5, 2.0, 2.0]),
        ({"schedule": "cosine", "decay_steps": 16}, [0.5, 2.0, 0.0]),
        ({"schedule": "cosine", "decay_steps": 28}, [0.5, 2.0, 1.0]),
    ],
)
def test_a_recipe_names_its_schedule(settings: dict[str, Any], rates: list[float]) -> None:
    values = {"lr": 2.0, "warmup_steps": 4, **settings}
    optimizer = OptimizerConfig.from_dict(values)
    got = [rate_at(step, optimizer, share=step / 16) for step in (1, 4, 16)]
    assert got == pytest.approx(rates)

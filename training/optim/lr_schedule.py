"""Learning-rate schedules with linear warm-up."""

import math

from training.config.run import OptimizerConfig

WARMUP_SHARE = 0.1
"""Share of the budget in which `linear` warms up, unless `warmup_steps` is set."""


def rate_at(step: int, settings: OptimizerConfig, *, share: float) -> float:
    """Return the learning rate of an optimizer step.

    Args:
        step: counted from 1.
        settings: schedule and peak rate.
        share: share of the run's budget that is used, 0 to 1, for `linear`.
    """
    warmup_steps, peak = settings.warmup_steps or 0, settings.lr
    match settings.schedule:
        case "linear":
            return peak * linear(step, warmup_steps=settings.warmup_steps, share=share)
        case "inverse_sqrt":
            return peak * inverse_sqrt(step, warmup_steps=warmup_steps)
        case "cosine":
            decay_steps = settings.decay_steps or 0
            return peak * cosine(step, warmup_steps=warmup_steps, decay_steps=decay_steps)
        case _:
            return peak * constant(step, warmup_steps=warmup_steps)


def linear(step: int, *, warmup_steps: int | None, share: float) -> float:
    """Rise linearly to 1, then fall linearly to 0 at the end of the budget.

    Source: Li, Yumer and Ramanan 2020, "Budgeted training", section 4,
    https://arxiv.org/abs/1905.04753
    """
    falling = (1 - share) / (1 - WARMUP_SHARE)
    if warmup_steps is None:
        return min(share / WARMUP_SHARE, falling)
    return min(constant(step, warmup_steps=warmup_steps), falling)


def constant(step: int, *, warmup_steps: int) -> float:
    """Rise linearly to 1 at `warmup_steps`, then stay."""
    return min(1.0, max(step, 1) / max(warmup_steps, 1))


def inverse_sqrt(step: int, *, warmup_steps: int) -> float:
    """Rise linearly to 1 at `warmup_steps`, then fall with the square root of the step.

    Source: Vaswani et al. 2017, section 5.3 (their peak rate is (d_model * warmup_steps) ** -0.5).
    """
    step = max(step, 1)
    if step < warmup_steps:
        return step / warmup_steps
    return math.sqrt(max(warmup_steps, 1) / step)


def cosine(step: int, *, warmup_steps: int, decay_steps: int) -> float:
    """Rise linearly to 1 at `warmup_steps`, then follow half a cosine to 0 at `decay_steps`.

    Source: Loshchilov and Hutter 2017, equation 5, without restarts,
    https://arxiv.org/abs/1608.03983
    """
    if step < warmup_steps:
        return constant(step, warmup_steps=warmup_steps)
    progress = (step - warmup_steps) / max(decay_steps - warmup_steps, 1)
    return 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))

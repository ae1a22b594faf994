"""Learning-rate schedules with linear warm-up.

Sources: `linear`, Li et al. 2020, section 4, https://arxiv.org/abs/1905.04753; `inverse_sqrt`,
Vaswani et al. 2017, section 5.3 (their peak rate is (d_model * warmup_steps) ** -0.5); `cosine`,
Loshchilov and Hutter 2017, equation 5, without restarts, https://arxiv.org/abs/1608.03983
"""

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
    warmup_steps = settings.warmup_steps or 0
    rising = min(1.0, step / max(warmup_steps, 1))
    if settings.warmup_steps is None:  # `linear` only
        rising = share / WARMUP_SHARE
    match settings.schedule:
        case "linear":
            falling = (1 - share) / (1 - WARMUP_SHARE)
        case "inverse_sqrt":
            falling = math.sqrt(max(warmup_steps, 1) / step)
        case "cosine":
            n_steps = max((settings.decay_steps or 0) - warmup_steps, 1)
            progress = min(max(step - warmup_steps, 0) / n_steps, 1.0)
            falling = 0.5 * (1 + math.cos(math.pi * progress))
        case "constant":
            falling = 1.0
    return settings.lr * min(rising, falling)

"""The learning rate as a function of the step.

Takes a step number, gives a factor of the peak rate. Pure: must not know the optimizer or torch.
"""

import math


def inverse_sqrt(step: int, *, warmup_steps: int) -> float:
    """Rise linearly to 1 at `warmup_steps`, then fall with the square root of the step.

    Source: Vaswani et al. 2017, section 5.3 (their peak rate is (d_model * warmup_steps) ** -0.5).
    """
    step = max(step, 1)
    if step < warmup_steps:
        return step / warmup_steps
    return math.sqrt(max(warmup_steps, 1) / step)

"""Schedules: a straight rise, then what their formulas say."""

from typing import Any

import pytest

from training.config.run import OptimizerConfig
from training.optim.lr_schedule import rate_at


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

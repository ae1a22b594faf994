"""Schedules: a straight rise, then what their formulas say."""

from typing import Any

import pytest

from training.config.run import OptimizerConfig
from training.optim.lr_schedule import rate_at


@pytest.mark.parametrize("warmup_steps", [1, 7, 4000])
def test_it_is_the_formula_of_the_paper_times_its_peak(warmup_steps: int) -> None:
    d_model = 512
    peak = (d_model * warmup_steps) ** -0.5
    settings = OptimizerConfig(lr=peak, schedule="inverse_sqrt", warmup_steps=warmup_steps)
    for step in (1, 2, 6, 7, 8, 3999, 4000, 4001, 100_000):
        papers = d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)
        assert rate_at(step, settings, share=0.0) == pytest.approx(papers)


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

"""Settings: ranges and the rules between them, told all at once."""

from typing import Any

import pytest

from hubnmt.errors import ConfigError
from training.config.run import OptimizerConfig, RunSettings


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"schedule": "line"}, "'linear' or 'inverse_sqrt' or 'noam' or 'cosine' or 'constant'"),
        ({"schedule": "inverse_sqrt"}, "schedule = 'inverse_sqrt' requires warmup_steps"),
        ({"schedule": "cosine"}, "schedule = 'cosine' requires decay_steps"),
        ({"decay_steps": 20, "warmup_steps": 20}, "decay_steps = 20 must be above warmup"),
        ({"schedule": "noam", "warmup_steps": 0}, "requires warmup_steps of at least 1"),
        ({"min_lr": 0.1}, "min_lr = 0.1 must be 0 to lr = 0.005"),
        ({"r_drop": -1.0}, "r_drop = -1.0 must be at least 0"),
        ({"r_dorp": 1.0}, "did you mean 'r_drop'"),
    ],
    ids=str,
)
def test_an_optimizer_that_cannot_be_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        OptimizerConfig.from_dict(values)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"judged": "best"}, "'average' or 'ema' or 'raw'"),
        ({"ema_decay": 1.0}, "ema_decay = 1.0 must be in [0, 1)"),
        ({"save_every": 0}, "save_every = 0 must be at least 1"),
        *(
            ({"name": name}, f"name = {name!r} is not a valid folder name in runs: choose a word")
            for name in ("../../x", "/tmp/x", "..", "", " ", "a\\b", "C:x", "a\0b", "a\n")
        ),
        ({"max_minutes": 0.0}, "max_minutes = 0.0 must be above 0"),
        ({"compile": 1}, "compile = 1 must be bool"),
    ],
    ids=str,
)
def test_a_run_that_cannot_be_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RunSettings.from_dict({"name": "x", **values})
    assert message in str(caught.value)

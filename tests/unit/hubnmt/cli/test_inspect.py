"""`inspect` tells the truth about a model."""

import json
from collections.abc import Callable
from typing import Any

import torch

import hubnmt

Run = Callable[..., str]


def test_inspect_tells_what_a_model_is(model: str, run: Run, tiny_config: Any) -> None:
    facts = json.loads(run("inspect", model, "--json"))
    assert facts["model"] == {"name": model, "folder": model, "weights": "float32"}
    assert facts["versions"]["hubnmt"] == hubnmt.__version__
    assert facts["versions"]["torch"] == torch.__version__
    assert facts["config"]["d_model"] == 12
    assert facts["decoding"]["beam_size"] == 2
    assert facts["tokenizer"]["round trip"] == "exact"
    assert facts["translation"]["text"]
    parts = facts["parameters"]
    total = parts.pop("total")
    assert sum(parts.values()) == total == tiny_config.n_parameters

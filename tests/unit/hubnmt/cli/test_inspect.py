"""`inspect` tells the truth about a model, and `--dtype` decides in what it runs."""

import json
from collections.abc import Callable
from typing import Any

import torch

import hubnmt
from hubnmt.cli.arguments import add_model_options
from hubnmt.cli.options import load_translator
from hubnmt.cli.parser import Parser

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


def test_inspect_can_be_read_by_people(model: str, run: Run) -> None:
    shown = run("inspect", model, "--text", "Zwei Männer")
    for word in ("versions", "d_model: 12", "pieces per word", "round trip: exact", "Zwei Männer"):
        assert word in shown


def test_the_model_is_loaded_as_asked(model: str) -> None:
    parser = Parser(prog="x")
    add_model_options(parser)
    translator = load_translator(parser.parse_args(["--model", model, "--dtype", "bfloat16"]))
    assert {str(parameter.dtype) for parameter in translator.model.parameters()} == {
        "torch.bfloat16"
    }

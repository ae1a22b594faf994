"""Options of the command line reach the model with the names and types they have in Python."""

import argparse

import pytest

from hubnmt.cli.options import (
    add_decoding_options,
    add_model_options,
    load_translator,
    show_progress,
)
from hubnmt.cli.parser import Parser
from hubnmt.errors import ConfigError


def parse(*arguments: str) -> argparse.Namespace:
    parser = Parser(prog="x")
    add_decoding_options(parser)
    return parser.parse_args(arguments)


@pytest.mark.parametrize("arguments", [["--beam-size", "two"], ["--no-such-option"]])
def test_a_bad_command_line_is_one_line_that_names_the_help(arguments: list[str]) -> None:
    with pytest.raises(ConfigError, match="see x --help"):
        parse(*arguments)


def test_the_model_is_loaded_as_asked(model: str) -> None:
    parser = Parser(prog="x")
    add_model_options(parser)
    translator = load_translator(parser.parse_args(["--model", model, "--dtype", "bfloat16"]))
    assert {str(parameter.dtype) for parameter in translator.model.parameters()} == {
        "torch.bfloat16"
    }


def test_a_pipe_gets_no_progress_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress(5, 0) as bar:
        bar.update(5)
    assert capsys.readouterr().err == ""

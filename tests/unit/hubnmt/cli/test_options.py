"""Options of the command line reach the model with the names and types they have in Python."""

import argparse

import pytest

from hubnmt.cli.options import (
    add_decoding_options,
    add_model_options,
    in_chunks,
    load_translator,
    show_progress,
)
from hubnmt.cli.parser import Parser
from hubnmt.errors import ConfigError
from hubnmt.translator import Translator


def parse(*arguments: str) -> argparse.Namespace:
    parser = Parser(prog="x")
    add_decoding_options(parser)
    return parser.parse_args(arguments)


def test_the_help_says_what_every_option_does() -> None:
    parser = Parser(prog="x")
    add_decoding_options(parser)
    silent = [action.dest for action in parser._actions if not action.help]
    assert silent == []
    assert "not counting the prefix" in " ".join(parser.format_help().split())


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


def test_the_engine_is_the_one_asked_for(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parser, asked = Parser(prog="x"), {}
    add_model_options(parser)
    monkeypatch.setattr(Translator, "from_pretrained", lambda model, **how: asked.update(how))
    load_translator(parser.parse_args(["--model", model]))
    assert asked == {"device": "cpu", "dtype": "float32", "engine": "torch"}
    load_translator(parser.parse_args(["--model", model, "--engine", "ctranslate2"]))
    assert asked["engine"] == "ctranslate2"
    with pytest.raises(ConfigError, match=r"--engine.*ctranslate2"):
        parser.parse_args(["--model", model, "--engine", "onnx"])


def test_chunks_hold_every_line_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hubnmt.cli.options.CHUNK_LINES", 3)
    assert list(in_chunks(range(7))) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(in_chunks([])) == []


def test_a_pipe_gets_no_progress_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress(5, 0) as bar:
        bar.update(5)
    assert capsys.readouterr().err == ""

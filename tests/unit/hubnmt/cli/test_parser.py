"""A mistake on the command line is one error with the way to the help."""

import pytest

from hubnmt.cli.parser import Parser
from hubnmt.errors import ConfigError


def test_a_mistake_is_an_error_that_names_the_help() -> None:
    parser = Parser(prog="hubnmt translate")
    with pytest.raises(ConfigError, match=r"--beam.*; see hubnmt translate --help"):
        parser.parse_args(["--beam"])

"""The parser of every command: a mistake on the command line is one line, like all others.

Takes nothing heavier than argparse, so that `hubnmt --help` answers at once.
"""

import argparse
from typing import NoReturn, TypeAlias

from hubnmt.errors import ConfigError


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `ConfigError`."""

    def error(self, message: str) -> NoReturn:
        """Report a bad command line."""
        raise ConfigError(f"{message}; see {self.prog} --help")


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
"""Where a command adds its own parser."""

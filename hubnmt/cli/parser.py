"""Argument parser that reports errors as exceptions.

Imports only argparse, so that `hubnmt --help` is fast.
"""

import argparse
from typing import NoReturn, TypeAlias

from hubnmt.errors import ConfigError


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `ConfigError`."""

    def error(self, message: str) -> NoReturn:
        """Raise a usage error."""
        raise ConfigError(f"{message}; see {self.prog} --help")


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
"""Subparsers to which each command adds its own."""

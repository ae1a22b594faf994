"""Argument parser that reports errors as exceptions and suggests the nearest name.

Imports nothing heavy, so that `--help` is fast.
"""

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from hubnmt.config import nearest_name
from hubnmt.errors import ConfigError

INVALID_CHOICE = re.compile(r"invalid choice: '(?P<value>.*)' \(choose from (?P<known>.*)\)")
NO_MODEL = re.compile(r"required: .*(--model|\bMODEL\b)")


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `ConfigError`."""

    def error(self, message: str) -> NoReturn:
        """Raise a usage error; one about a missing model names the bundled models."""
        choice = INVALID_CHOICE.search(message)
        if choice:
            message += _suggest(choice["value"], re.findall(r"[\w-]+", choice["known"]))
        if NO_MODEL.search(message):
            from hubnmt.checkpoint.folder import bundled_models  # imports torch

            message += f" (bundled models: {', '.join(bundled_models())})"
        raise ConfigError(f"{message}; see {self.prog} --help")

    def parse_known_args(  # type: ignore[override]  # the original has overloads
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuse unknown arguments here, where the options of the command are known."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            suggestion = _suggest(unknown[0].split("=")[0], list(self._option_string_actions))
            self.error(f"unrecognized arguments: {' '.join(unknown)}{suggestion}")
        return options, unknown


def _suggest(name: str, known: Sequence[str]) -> str:
    """Return a hint with the nearest known command, option or value; empty if none is near."""
    keys = {each.lstrip("-").replace("-", "_"): each for each in known}
    near = nearest_name(name.lstrip("-").replace("-", "_"), list(keys))
    return f" (did you mean {keys[near]!r}?)" if near else ""

"""Argument parser that reports errors as exceptions and suggests the nearest name.

Imports nothing heavy, so that `--help` is fast.
"""

import argparse
import itertools
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from hubnmt.errors import ConfigError
from hubnmt.schema import nearest_name

INVALID_CHOICE = re.compile(r"invalid choice: '(?P<value>.*)' \(choose from (?P<known>.*)\)")
NO_MODEL = re.compile(r"required: .*(--model|\bMODEL\b)")


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `ConfigError`."""

    _arguments: Sequence[str] = ()

    def error(self, message: str) -> NoReturn:
        """Raise a usage error; it names the bundled models and misspelt options where they help."""
        choice = INVALID_CHOICE.search(message)
        if choice:
            message += _suggest(choice["value"], re.findall(r"[\w-]+", choice["known"]))
        if NO_MODEL.search(message):
            from hubnmt.checkpoint.description import bundled_models

            message += f" (bundled models: {', '.join(bundled_models())})"
        if " required: " in message and (unknown := self._unknown_options()):
            message += f"; {self._describe_unknown(unknown)}"
        raise ConfigError(f"{message}; see {self.prog} --help")

    def parse_known_args(  # type: ignore[override]  # the original has overloads
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuse unknown arguments here, where the options of the command are known."""
        self._arguments = args or ()
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._describe_unknown(unknown))
        return options, unknown

    def _unknown_options(self) -> list[str]:
        """Return the given options that are neither an option of this command nor short for one."""
        given = itertools.takewhile(lambda each: each != "--", self._arguments)
        names = [each.split("=")[0] for each in given if each.startswith("--")]
        known = self._option_string_actions
        return [name for name in names if not any(each.startswith(name) for each in known)]

    def _describe_unknown(self, unknown: Sequence[str]) -> str:
        """Describe unknown arguments; suggest the nearest option for the first."""
        suggestion = _suggest(unknown[0].split("=")[0], list(self._option_string_actions))
        return f"unrecognized arguments: {' '.join(unknown)}{suggestion}"


def _suggest(name: str, known: Sequence[str]) -> str:
    """Return a hint with the nearest known command, option or value; empty if none is near."""
    keys = {each.lstrip("-").replace("-", "_"): each for each in known}
    near = nearest_name(name.lstrip("-").replace("-", "_"), list(keys))
    return f" (did you mean {keys[near]!r}?)" if near else ""

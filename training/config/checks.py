"""Checks that the sections of a recipe share, as pairs of validity and message for `require`."""

import contextlib
from collections.abc import Iterator
from typing import Any

from hubnmt.errors import ConfigError

Check = tuple[bool, str]


def at_least(config: Any, least: int, *names: str) -> list[Check]:
    """Check that fields are not below a bound; None is valid."""
    values = {name: getattr(config, name) for name in names}
    return [
        (value is None or value >= least, f"{name} = {value} must be at least {least}")
        for name, value in values.items()
    ]


def above_zero(config: Any, *names: str) -> list[Check]:
    """Check that fields are positive and finite; None is valid."""
    values = {name: getattr(config, name) for name in names}
    return [
        (value is None or 0 < value < float("inf"), f"{name} = {value} must be above 0")
        for name, value in values.items()
    ]


def shares(config: Any, *names: str) -> list[Check]:
    """Check that fields are in [0, 1]."""
    values = {name: getattr(config, name) for name in names}
    return [(0 <= v <= 1, f"{name} = {v} must be 0 to 1") for name, v in values.items()]


@contextlib.contextmanager
def collecting(problems: list[str]) -> Iterator[None]:
    """Append the message of a `ConfigError` raised in the block, to report all mistakes at once."""
    try:
        yield
    except ConfigError as error:
        problems.append(str(error))

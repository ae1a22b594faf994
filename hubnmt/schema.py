"""Build dataclasses from JSON or TOML tables and report all invalid values at once."""

import contextlib
import dataclasses
import difflib
import reprlib
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Self

from hubnmt.errors import N_NAMED, ConfigError

MAX_PROBLEM_CHARS = 300
"""Longer messages contain a long value and are shortened in the middle."""

_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxlong, _SHORT.maxother = 3, 80, 80, 80


def _matches(value: Any, annotation: Any) -> bool:
    """Return whether a JSON/TOML value matches an annotation; int matches float, bool does not."""
    origin, options = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return value in options
    if origin in (typing.Union, types.UnionType):
        return any(_matches(value, option) for option in options)
    if origin in (tuple, list):
        if not isinstance(value, (list, tuple)):
            return False
        if origin is list or options[1:] == (Ellipsis,):
            return all(_matches(item, options[0]) for item in value)
        return len(value) == len(options) and all(map(_matches, value, options))
    if origin is dict:
        return isinstance(value, Mapping)
    kinds: Any = {None: type(None), float: (int, float)}.get(annotation, annotation)
    return isinstance(value, kinds) and (annotation is bool or not isinstance(value, bool))


def _describe(annotation: Any) -> str:
    """Return a readable name of a type: `int`, `'pre' or 'post'`, `int or null`, `list of str`."""
    origin, options = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is tuple:
        number = "" if options[1:] == (Ellipsis,) else f"{len(options)} "
        return f"list of {number}{_describe(options[0])}"
    if origin is dict:
        return "table"
    if origin is Literal:
        return " or ".join(repr(option) for option in options)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(_describe, options))
    if annotation is type(None):
        return "null"
    return getattr(annotation, "__name__", str(annotation))


def find_problems(cls: type, values: Mapping[str, Any]) -> list[str]:
    """Return a message for each unknown, missing or mistyped key of `values` for `cls`."""
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}
    unknown = [key for key in values if key not in fields]
    problems = [_describe_unknown(key, list(fields)) for key in unknown[:N_NAMED]]
    if len(unknown) > N_NAMED:
        problems.append(f"{len(unknown) - N_NAMED:,} more unknown keys")
    for name, field in fields.items():
        defaults = (field.default, field.default_factory)
        if name in values and not _matches(values[name], hints[name]):
            shown = _SHORT.repr(values[name])
            problems.append(f"{name} = {shown} must be {_describe(hints[name])}")
        if name not in values and defaults == (dataclasses.MISSING, dataclasses.MISSING):
            problems.append(f"{name} is missing")
    return problems


def _describe_unknown(key: str, fields: list[str]) -> str:
    near = nearest_name(key, fields)
    hint = f"did you mean {near!r}?" if near else f"known: {', '.join(fields)}"
    return f"unknown key {_SHORT.repr(key)} ({hint})"


def nearest_name(name: str, known: Sequence[str]) -> str | None:
    """Return the known name that an unknown one resembles, if any."""
    return next(iter(difflib.get_close_matches(name[:MAX_PROBLEM_CHARS], known, n=1)), None)


class FromDict:
    """Mixin to build a dataclass from a dictionary and reject unknown keys."""

    __slots__ = ()

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, where: str = "config") -> Self:
        """Build and validate; error messages start with `where`, a file or section name.

        Raises:
            ConfigError: if keys are unknown, missing, mistyped or out of range; lists all of them.
        """
        if not isinstance(values, Mapping):
            raise ConfigError(f"{where}: must be a table of keys and values")
        problems, hints = find_problems(cls, values), typing.get_type_hints(cls)
        plain = {
            key: tuple(value) if isinstance(value, list) and _wants_tuple(hints[key]) else value
            for key, value in values.items()
            if key in hints and _matches(value, hints[key])
        }
        try:
            built = cls(**plain)
        except ConfigError as error:
            problems.append(str(error))
        except TypeError:  # a required key is missing, so it is in `problems`
            pass
        if problems:
            raise ConfigError(f"{where}: {'; '.join(problems)}")
        return built

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as a JSON-serializable dictionary."""
        return dataclasses.asdict(self)  # type: ignore[call-overload,no-any-return]  # mixin


def _wants_tuple(annotation: Any) -> bool:
    options = [annotation, *typing.get_args(annotation)]
    return any(typing.get_origin(option) is tuple for option in options)


Check = tuple[bool, str]
"""Whether a value is valid, and the message if not."""


def require(*checks: Check) -> None:
    """Raise one `ConfigError` that lists every failed check."""
    problems = [_shorten(message) for is_valid, message in checks if not is_valid]
    if problems:
        raise ConfigError("; ".join(problems))


def _shorten(message: str) -> str:
    end = MAX_PROBLEM_CHARS // 2
    return message if len(message) <= 2 * end else f"{message[:end]}...{message[-end:]}"


def at_least(config: Any, least: int, *names: str) -> list[Check]:
    """Check that fields are not below a bound; None is valid."""
    return _check_each(config, names, lambda value: value >= least, f"at least {least}")


def above_zero(config: Any, *names: str) -> list[Check]:
    """Check that fields are positive and finite; None is valid."""
    return _check_each(config, names, lambda value: 0 < value < float("inf"), "above 0")


def within(config: Any, least: float, most: float, *names: str) -> list[Check]:
    """Check that fields are in [least, most]; None is valid."""
    return _check_each(config, names, lambda value: least <= value <= most, f"{least} to {most}")


def _check_each(
    config: Any, names: Sequence[str], is_valid: Callable[[Any], bool], wanted: str
) -> list[Check]:
    values = {name: getattr(config, name) for name in names}
    return [
        (value is None or is_valid(value), f"{name} = {value} must be {wanted}")
        for name, value in values.items()
    ]


@contextlib.contextmanager
def collecting(problems: list[str]) -> Iterator[None]:
    """Append the message of a `ConfigError` raised in the block, to report all mistakes at once."""
    try:
        yield
    except ConfigError as error:
        problems.append(str(error))

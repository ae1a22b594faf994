"""Declarative description of the decoding options shown in the page, and their presets.

Valid values are defined in `hubnmt.config`; a slider's range covers the useful ones.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from hubnmt.config import DecodingConfig, DecodingOptions

N_BEST = 3
"""Default number of alternatives requested by the page, limited by the beam size."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Control:
    """One decoding option on the page."""

    name: str
    """Field of `DecodingConfig`; for `Words`, keyword of `Translator.translate`."""
    label: str
    info: str
    """Short help text."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Slider(Control):
    """A number in a range."""

    low: float
    high: float
    step: float


class Number(Control):
    """An integer without bounds."""

    __slots__ = ()


class Switch(Control):
    """A Boolean."""

    __slots__ = ()


class Words(Control):
    """A line of text."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Controls shown under one heading."""

    title: str
    controls: tuple[Control, ...]
    only_when: str = ""
    """Name of a switch outside the group; its controls have an effect only while it is on."""


SEARCH = Group(
    title="Search",
    controls=(
        Slider(
            name="beam_size",
            label="Beam size",
            info="Hypotheses kept during beam search; 1 is greedy decoding.",
            low=1,
            high=16,
            step=1,
        ),
        Slider(
            name="n_best",
            label="Alternatives",
            info="Number of translations to return, at most the beam size.",
            low=1,
            high=16,
            step=1,
        ),
        Slider(
            name="length_penalty",
            label="Length penalty",
            info="Above 1 favours longer translations, below 1 shorter ones.",
            low=0,
            high=2,
            step=0.05,
        ),
        Slider(
            name="max_new_tokens",
            label="Max new tokens",
            info="Per sentence; 0 derives the limit from the source length.",
            low=0,
            high=512,
            step=1,
        ),
    ),
)

SAMPLE = Group(
    title="Sampling",
    controls=(
        Switch(
            name="sample",
            label="Random sampling",
            info="Sample tokens instead of using beam search.",
        ),
    ),
)

SAMPLING = Group(
    title="",
    controls=(
        Slider(
            name="temperature",
            label="Temperature",
            info="Below 1 favours probable tokens, above 1 increases diversity.",
            low=0.1,
            high=2,
            step=0.05,
        ),
        Slider(
            name="top_p",
            label="Top p",
            info="Sample from the smallest set of tokens with this total probability; 1 is off.",
            low=0.05,
            high=1,
            step=0.05,
        ),
        Slider(
            name="top_k",
            label="Top k",
            info="Sample from this many most probable tokens; 0 is off.",
            low=0,
            high=200,
            step=1,
        ),
        Number(name="seed", label="Seed", info="The same seed reproduces the same samples."),
    ),
    only_when="sample",
)

REPETITION = Group(
    title="Repetition",
    controls=(
        Slider(
            name="no_repeat_ngram_size",
            label="No-repeat n-gram size",
            info="Forbid repeated n-grams of this many tokens; 0 is off.",
            low=0,
            high=10,
            step=1,
        ),
        Slider(
            name="repetition_penalty",
            label="Repetition penalty",
            info="Above 1 penalizes tokens already generated; 1 is off.",
            low=0.8,
            high=2,
            step=0.05,
        ),
    ),
)

PREFIX = Group(
    title="Prefix",
    controls=(
        Words(
            name="prefix",
            label="Forced prefix",
            info="Text the translation must start with.",
        ),
    ),
)

GROUPS = (SEARCH, SAMPLE, SAMPLING, REPETITION, PREFIX)
CONTROLS = tuple(control for group in GROUPS for control in group.controls)
NAMES = tuple(control.name for control in CONTROLS)

STEERED = (
    "beam_size",
    "length_penalty",
    "max_new_tokens",
    "no_repeat_ngram_size",
    "repetition_penalty",
)
"""Options that apply when a forced prefix is completed with one beam search."""

BEST = "Best"
"""The preset that keeps the model's defaults."""

PRESETS: dict[str, dict[str, Any]] = {
    "Fast": {"beam_size": 1, "n_best": 1},
    BEST: {},
    "Creative": {"sample": True, "temperature": 0.9, "top_p": 0.95},
}
"""Overrides of the model's default decoding options."""


def control_values(decoding: DecodingConfig, preset: str = BEST) -> dict[str, Any]:
    """Return control values for a model's defaults, clamped to the sliders, and a preset."""
    values = {
        control.name: ""
        if isinstance(control, Words)
        else _clamp(control, getattr(decoding, control.name))
        for control in CONTROLS
    }
    values["n_best"] = min(max(values["n_best"], N_BEST), values["beam_size"])
    return values | PRESETS[preset]


def _clamp(control: Control, value: Any) -> Any:
    """Clamp a number to the slider's range; None becomes 0."""
    if isinstance(control, Slider):
        return min(max(value or 0, control.low), control.high)
    return value


def read_options(values: Sequence[Any]) -> dict[str, Any]:
    """Convert control values, in the order of `NAMES`, to options of `Translator.translate`.

    An empty control is omitted, so that the model's default applies.
    """
    named = zip(NAMES, values, strict=True)
    options = {name: whole(value) for name, value in named if value is not None}
    if options.get("max_new_tokens") == 0:
        options["max_new_tokens"] = None
    return options


def read_steered(values: Sequence[Any]) -> dict[str, Any]:
    """Return the options of `read_options` that are in `STEERED`."""
    options = read_options(values)
    return {name: options[name] for name in STEERED if name in options}


def given_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values named like a decoding option that are not None."""
    names = [name for name in DecodingOptions.__annotations__ if values.get(name) is not None]
    return {name: whole(values[name]) for name in names}


def whole(value: Any) -> Any:
    """Convert integral floats such as 5.0 to int: sliders and JSON do not distinguish them."""
    return int(value) if isinstance(value, float) and value.is_integer() else value

"""The decoding options as a page offers them: names, ranges, a phrase for each, and presets.

Takes a model's `DecodingConfig`, gives what the page's controls show; and back, options from what
they say. Which values are possible is decided in `hubnmt.config`; a range here ends where a
translation only gets slower or stranger. Must not know Gradio or how decoding works.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from hubnmt.config import DecodingConfig

N_BEST = 3
"""Translations the page asks for, if the beam is that wide: alternatives are worth seeing."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Control:
    """One decoding option on the page."""

    name: str
    """The field of `DecodingConfig`; of `Words`, the keyword of `Translator.translate`."""
    label: str
    info: str
    """What it does, in a phrase."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Slider(Control):
    """A number in a range."""

    low: float
    high: float
    step: float


class Number(Control):
    """A whole number of any size."""

    __slots__ = ()


class Switch(Control):
    """On or off."""

    __slots__ = ()


class Words(Control):
    """A line of text."""

    __slots__ = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Controls that belong together."""

    title: str
    controls: tuple[Control, ...]
    only_when: str = ""
    """A switch outside the group, without which its controls change nothing."""


SEARCH = Group(
    title="Search",
    controls=(
        Slider(
            name="beam_size",
            label="Beam size",
            info="Translations followed side by side; 1 is greedy and fastest.",
            low=1,
            high=16,
            step=1,
        ),
        Slider(
            name="n_best",
            label="Alternatives",
            info="Best translations to show, at most the beam size.",
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
            label="Longest translation",
            info="Tokens per sentence; 0 follows the length of the source.",
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
            label="Draw words at random",
            info="Instead of searching for the most probable ones; the beam is not used then.",
        ),
    ),
)

SAMPLING = Group(
    title="",
    controls=(
        Slider(
            name="temperature",
            label="Temperature",
            info="Below 1 keeps to probable words, above 1 is wilder.",
            low=0.1,
            high=2,
            step=0.05,
        ),
        Slider(
            name="top_p",
            label="Top p",
            info="Draws among the fewest tokens that reach this probability; 1 is all.",
            low=0.05,
            high=1,
            step=0.05,
        ),
        Slider(
            name="top_k",
            label="Top k",
            info="Draws among this many most probable tokens; 0 is all.",
            low=0,
            high=200,
            step=1,
        ),
        Number(name="seed", label="Seed", info="The same seed draws the same words again."),
    ),
    only_when="sample",
)

REPETITION = Group(
    title="Repetition",
    controls=(
        Slider(
            name="no_repeat_ngram_size",
            label="No repeated n-grams",
            info="No run of this many tokens comes twice; 0 allows all.",
            low=0,
            high=10,
            step=1,
        ),
        Slider(
            name="repetition_penalty",
            label="Repetition penalty",
            info="Above 1 makes tokens less likely that were said before; 1 is off.",
            low=0.8,
            high=2,
            step=0.05,
        ),
    ),
)

BEGINNING = Group(
    title="Beginning",
    controls=(
        Words(
            name="prefix",
            label="The translation begins with",
            info="Your own first words; the model goes on from there.",
        ),
    ),
)

GROUPS = (SEARCH, SAMPLE, SAMPLING, REPETITION, BEGINNING)
CONTROLS = tuple(control for group in GROUPS for control in group.controls)
NAMES = tuple(control.name for control in CONTROLS)

STEERED = (
    "beam_size",
    "length_penalty",
    "max_new_tokens",
    "no_repeat_ngram_size",
    "repetition_penalty",
)
"""What counts when a sentence is completed: one search, from a beginning of its own."""

BEST = "Best"
"""The preset that changes nothing."""

PRESETS: dict[str, dict[str, Any]] = {
    "Fast": {"beam_size": 1, "n_best": 1},
    BEST: {},
    "Creative": {"sample": True, "temperature": 0.9, "top_p": 0.95},
}
"""What each changes in a model's own defaults."""


def control_values(decoding: DecodingConfig, preset: str = BEST) -> dict[str, Any]:
    """Set the controls to a model's own defaults, as far as they reach, and a preset."""
    values = {
        control.name: ""
        if isinstance(control, Words)
        else _reach(control, getattr(decoding, control.name))
        for control in CONTROLS
    }
    values["n_best"] = min(max(values["n_best"], N_BEST), values["beam_size"])
    return values | PRESETS[preset]


def _reach(control: Control, value: Any) -> Any:
    """Move a number to where a slider can show it; null is 0."""
    if isinstance(control, Slider):
        return min(max(value or 0, control.low), control.high)
    return value


def read_options(values: Sequence[Any]) -> dict[str, Any]:
    """Turn what the controls say, in their order, into options of `Translator.translate`.

    A control that was emptied says nothing, so it is left to the model.
    """
    said = zip(NAMES, values, strict=True)
    options = {name: whole(value) for name, value in said if value is not None}
    if options.get("max_new_tokens") == 0:
        options["max_new_tokens"] = None
    return options


def read_steered(values: Sequence[Any]) -> dict[str, Any]:
    """Read, as `read_options` does, what counts when a sentence is completed."""
    options = read_options(values)
    return {name: options[name] for name in STEERED if name in options}


def given_options(**options: Any) -> dict[str, Any]:
    """Keep the options that a client gave; null leaves one to the model."""
    return {name: whole(value) for name, value in options.items() if value is not None}


def whole(value: Any) -> Any:
    """Turn 5.0 into 5: sliders and JSON do not tell them apart."""
    return int(value) if isinstance(value, float) and value.is_integer() else value

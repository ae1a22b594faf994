"""The decoding options shown on the page, and their presets.

Valid values are defined in `hubnmt.config`; a slider's range covers the useful ones.
"""

import itertools
import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hubnmt.config import DecodingConfig, DecodingOptions

N_BEST = 3
"""Default number of alternatives requested by the page, limited by the beam size."""

MAX_SEED = 999_999
"""Largest seed that the page draws; so short a number can be typed again."""


class Control(NamedTuple):
    """One decoding option on the page."""

    name: str
    """Field of `DecodingConfig`, or `prefix`."""
    label: str
    info: str
    """Short help text."""
    slider: tuple[float, float, float] | None = None
    """Lowest and highest value, and step, of a slider."""


SEARCH = (
    Control("beam_size", "Beam size", "Hypotheses kept in the search; 1 is greedy.", (1, 16, 1)),
    Control("n_best", "Alternatives", "Translations returned, at most the beam size.", (1, 16, 1)),
    Control("length_penalty", "Length penalty", "Above 1 favours long translations.", (0, 2, 0.05)),
    Control("max_new_tokens", "Max new tokens", "Per sentence; 0 follows the source.", (0, 512, 1)),
)
SAMPLING = (
    Control("sample", "Random sampling", "Sample tokens instead of using beam search."),
    Control("temperature", "Temperature", "Below 1 favours probable tokens.", (0.1, 2, 0.05)),
    Control("top_p", "Top p", "Sample from this total probability; 1 is off.", (0.05, 1, 0.05)),
    Control("top_k", "Top k", "Sample from this many probable tokens; 0 is off.", (0, 200, 1)),
    Control("seed", "Seed", "The same seed gives the same text; empty, each translation has one."),
)
REPEATS = (
    Control(
        "no_repeat_ngram_size",
        "No-repeat n-gram size",
        "Forbid repeated n-grams of this many tokens; 0 is off.",
        (0, 10, 1),
    ),
    Control(
        "repetition_penalty",
        "Repetition penalty",
        "Above 1 penalizes tokens already generated; 1 is off.",
        (0.8, 2, 0.05),
    ),
)
PREFIX = Control("prefix", "Forced prefix", "Text the translation must start with.")

GROUPS = {"Search": SEARCH, "Sampling": SAMPLING, "Repetition": REPEATS, "Prefix": (PREFIX,)}
"""Controls by their heading. The style sheet shows those of sampling only if it is on."""
CONTROLS = tuple(itertools.chain.from_iterable(GROUPS.values()))
NAMES = tuple(control.name for control in CONTROLS)

BEST = "Best"
"""The preset that keeps the model's defaults."""

PRESETS: dict[str, dict[str, Any]] = {
    "Fast": {"beam_size": 1, "n_best": 1},
    BEST: {},
    "Creative": {"sample": True, "temperature": 0.9, "top_p": 0.95, "seed": None},
}
"""Overrides of the model's default decoding options."""


def control_values(decoding: DecodingConfig, preset: str = BEST) -> dict[str, Any]:
    """Return control values for a model's defaults, clamped to the sliders, and a preset."""
    values = {}
    for control in CONTROLS:
        value = getattr(decoding, control.name, "")
        if control.slider is not None:
            low, high, _ = control.slider
            value = min(max(value or 0, low), high)
        values[control.name] = value
    values["n_best"] = min(max(values["n_best"], N_BEST), values["beam_size"])
    return values | PRESETS[preset]


def read_options(values: Sequence[Any]) -> dict[str, Any]:
    """Convert control values, in the order of `NAMES`, to options of `Translator.translate`.

    An empty control is omitted, so that the model's default applies; an empty seed is drawn.
    """
    named = zip(NAMES, values, strict=True)
    options = {name: whole(value) for name, value in named if value is not None}
    if options.get("max_new_tokens") == 0:
        options["max_new_tokens"] = None
    if options.get("sample") and "seed" not in options:
        options["seed"] = random.randint(0, MAX_SEED)
    return options


def given_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values named like a decoding option that are not None."""
    names = [name for name in DecodingOptions.__annotations__ if values.get(name) is not None]
    return {name: whole(values[name]) for name in names}


def whole(value: Any) -> Any:
    """Convert integral floats such as 5.0 to int: sliders and JSON do not distinguish them."""
    return int(value) if isinstance(value, float) and value.is_integer() else value

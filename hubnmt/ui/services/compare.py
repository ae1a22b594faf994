"""Two translations of one text beside each other, as functions that need no server.

Takes a text and for each side a model and options, gives both translations, where they differ, and
how probable each model finds either. A request that cannot be met raises `HubNMTError`. Must not
know Gradio or HTML.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from hubnmt.errors import InputError
from hubnmt.text.languages import language_name
from hubnmt.types import PairScore
from hubnmt.ui.services import decoding_controls, limits
from hubnmt.ui.services.differences import Span, mark_differences
from hubnmt.ui.services.translate import Handlers, Timed

N_OPTIONS = len(decoding_controls.NAMES)


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """One of the two."""

    model: str
    timed: Timed
    spans: tuple[Span, ...]
    """The translation, cut where it differs from the other."""
    scores: tuple[PairScore | None, PairScore | None]
    """This translation as the first and as the second model finds it; None for what is too long, or
    nothing at all."""


def compare(
    handlers: Handlers, text: str, models: Sequence[str], options: Sequence[Mapping[str, Any]]
) -> tuple[Side, Side]:
    """Translate a text in two ways and measure each under the other.

    Args:
        handlers: of the page.
        text: what to translate.
        models: two names; empty is the one the page opened with.
        options: for each of them, fields of `DecodingConfig` that differ from its defaults.

    Raises:
        HubNMTError: if a text, a model or an option is refused.
    """
    limits.check_text(text)
    names = [handlers.registry.name(model) for model in models]
    _check_pairs(handlers, names)
    timed = [
        handlers.translate_text(text, model, **said)
        for model, said in zip(names, options, strict=True)
    ]
    texts = [each.translation.text for each in timed]
    spans = mark_differences(*texts)
    scores = [tuple(_score(handlers, model, text, said) for model in names) for said in texts]
    first, second = (
        Side(name, each, cut, (under[0], under[1]))
        for name, each, cut, under in zip(names, timed, spans, scores, strict=True)
    )
    return first, second


def _check_pairs(handlers: Handlers, names: Sequence[str]) -> None:
    """Refuse two models that translate between different languages.

    Raises:
        InputError: naming both pairs.
    """
    configs = [handlers.registry.get(name).config for name in names]
    pairs = [
        f"{language_name(each.src_lang)} to {language_name(each.tgt_lang)}" for each in configs
    ]
    if pairs[0] != pairs[1]:
        raise InputError(
            f"A translates {pairs[0]} and B {pairs[1]}: choose two models of the same pair"
        )


def _score(handlers: Handlers, model: str, src: str, tgt: str) -> PairScore | None:
    try:
        return limits.score(handlers.registry.get(model), src, tgt)
    except InputError:
        return None


def read_sides(values: Sequence[Any]) -> tuple[list[str], list[dict[str, Any]]]:
    """Read what two panels say: for each a model, then its controls in their order."""
    size = 1 + N_OPTIONS
    panels = [values[:size], values[size:]]
    return [panel[0] for panel in panels], [
        decoding_controls.read_options(panel[1:]) for panel in panels
    ]

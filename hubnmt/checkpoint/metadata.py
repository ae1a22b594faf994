"""The YAML head of a model card: its metadata, and the measured scores in it.

A card is anybody's text: what cannot be read says nothing, and the model works without. All values
are read as texts: YAML's own rules for numbers and dates raise over some, and take `no` for false.
Source of the format: https://huggingface.co/docs/hub/model-cards
"""

import dataclasses
import logging
import math
from collections.abc import Iterator
from typing import Any

import yaml

from hubnmt.checkpoint.folder import LIBRARY
from hubnmt.config import LANGUAGE_TAG
from hubnmt.errors import ModelFolderError

logger = logging.getLogger(__name__)

MAX_HEAD_CHARS = 20_000
"""A card's YAML head longer than this is not read: ours have 2,000, and PyYAML takes a second."""

METRIC_NAMES = {"bleu": "BLEU", "sacrebleu": "BLEU", "chrf": "chrF", "chrf++": "chrF++"}


@dataclasses.dataclass(frozen=True, slots=True)
class Score:
    """One measured number from a model card."""

    metric: str
    """`BLEU`, `chrF` or `chrF++`."""
    value: float
    """0 to 100."""
    dataset: str
    """What it was measured on; may be empty."""


class _AliasError(Exception):
    """An alias in a head."""


class _TextLoader(yaml.BaseLoader):
    """Reads lists, tables and texts, each as large as it looks.

    By aliases a few lines can stand for gigabytes, or contain themselves; no card of ours has them.
    """

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Read one value."""
        if self.check_event(yaml.AliasEvent):
            raise _AliasError
        return super().compose_node(parent, index)


def read_metadata(card: str) -> dict[str, Any]:
    """Parse the head of a card; empty if there is none, or none that can be read."""
    try:
        return _parse_head(card)
    except ModelFolderError as error:
        logger.warning("the model card cannot be read (%s)", error)
        return {}


def check_metadata(card: str) -> None:
    """Refuse a card the Hub could not file: no head, or one that does not say what this is.

    Raises:
        ModelFolderError: listing what is wrong.
    """
    values = _parse_head(card)
    problems = []
    if values.get("library_name") != LIBRARY:
        problems.append(f"library_name is not {LIBRARY}")
    tags = values.get("tags")
    if not isinstance(tags, list) or LIBRARY not in tags:
        problems.append(f"tags do not list {LIBRARY}")
    if not read_languages(values):
        problems.append("language lists no language")
    if problems:
        raise ModelFolderError("; ".join(problems))


def _parse_head(card: str) -> dict[str, Any]:
    """Parse the YAML between the two `---` lines that open a card.

    Raises:
        ModelFolderError: if it is far too long, or no table of keys and values.
    """
    lines = card.splitlines()
    if not lines or lines[0].strip() != "---":
        return {}
    end = next((i for i, line in enumerate(lines[1:], 1) if line.strip() == "---"), 0)
    head = "\n".join(lines[1:end])
    if len(head) > MAX_HEAD_CHARS:
        raise ModelFolderError(f"the head is longer than {MAX_HEAD_CHARS:,} characters")
    try:
        values = yaml.load(head, _TextLoader)
    except _AliasError:
        raise ModelFolderError("the head has an alias (*name): write the value out") from None
    except Exception as error:  # the parser raises what it meets: ValueError, RecursionError, ...
        raise ModelFolderError(f"the head is no valid YAML, {type(error).__name__}") from None
    if values and not isinstance(values, dict):
        raise ModelFolderError("the head is no table of keys and values")
    return values or {}


def read_languages(metadata: dict[str, Any]) -> tuple[str, ...]:
    """List the languages, source first, as our cards give them."""
    languages = metadata.get("language")
    listed = languages if isinstance(languages, list) else [languages]
    return tuple(
        language
        for language in listed
        if isinstance(language, str) and LANGUAGE_TAG.fullmatch(language)
    )


def read_scores(metadata: dict[str, Any]) -> tuple[Score, ...]:
    """Read the measured scores, the first of each metric."""
    first: dict[str, Score] = {}
    for score in _scores(metadata):
        first.setdefault(score.metric, score)
    return tuple(first.values())


def _scores(metadata: dict[str, Any]) -> Iterator[Score]:
    """Walk `model-index` -> results -> metrics, past whatever has another shape."""
    for model in _dicts(metadata.get("model-index")):
        for result in _dicts(model.get("results")):
            dataset = result.get("dataset")
            dataset_name = dataset.get("name") if isinstance(dataset, dict) else None
            for metric in _dicts(result.get("metrics")):
                kind, value = metric.get("type"), metric.get("value")
                name = METRIC_NAMES.get(kind.lower()) if isinstance(kind, str) else None
                number = _number(value)
                if name and 0 <= number <= 100:
                    where = dataset_name if isinstance(dataset_name, str) else ""
                    yield Score(name, number, where.encode("utf-8", "replace").decode())


def _number(value: Any) -> float:
    """Read a number, which a card gives as text and the Hub as one; NaN for anything else."""
    try:
        return float(value) if isinstance(value, (str, int, float)) else math.nan
    except (ValueError, OverflowError):
        return math.nan


def _dicts(value: Any) -> Iterator[dict[Any, Any]]:
    """Yield the dictionaries of a list; nothing if it is no list."""
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))

"""Parse the YAML metadata of a model card and the scores in it.

Cards are untrusted, so invalid metadata is ignored. All values are read as strings, because YAML's
implicit types raise on some dates and read `no` as false.
Format: https://huggingface.co/docs/hub/model-cards
"""

import dataclasses
import logging
import math
import re
from pathlib import Path
from typing import Any

import yaml

from hubnmt.checkpoint.files import CARD, LIBRARY, MAX_CARD_MIB
from hubnmt.config import LANGUAGE_TAG
from hubnmt.errors import ModelFolderError
from hubnmt.schema import require
from hubnmt.text.textfile import read_small

logger = logging.getLogger(__name__)

MAX_HEAD_CHARS = 20_000
"""Longest metadata that is parsed; typical are 2,000, and PyYAML takes a second at this length."""

METRIC_NAMES = {"bleu": "BLEU", "sacrebleu": "BLEU", "chrf": "chrF", "chrf++": "chrF++"}


@dataclasses.dataclass(frozen=True, slots=True)
class Score:
    """A score from a model card."""

    metric: str
    """`BLEU`, `chrF` or `chrF++`."""
    value: float
    """0 to 100."""
    dataset: str
    """Name of the test set; may be empty."""


class _TextLoader(yaml.BaseLoader):
    """YAML loader without aliases, which could expand to gigabytes or be recursive."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise ModelFolderError("the YAML header has an alias (*name): replace it by its value")
        return super().compose_node(parent, index)


def read_card(folder: Path) -> str:
    """Read the model card; empty if there is none. Invalid UTF-8 becomes U+FFFD.

    Raises:
        ModelFolderError: if it is too large or cannot be read.
    """
    path = folder / CARD
    if not path.is_file():
        return ""
    return read_small(path, MAX_CARD_MIB * 2**20).decode("utf-8", "replace")


def read_metadata(card: str) -> dict[str, Any]:
    """Parse the metadata of a card; empty if missing or invalid."""
    try:
        return _parse_head(card)
    except ModelFolderError as error:
        logger.warning("the metadata of the model card cannot be read (%s)", error)
        return {}


def check_metadata(card: str) -> None:
    """Raise a `HubNMTError` without the metadata by which the Hub lists a hubnmt model."""
    values = _parse_head(card)
    tags = values.get("tags")
    require(
        (values.get("library_name") == LIBRARY, f"library_name is not {LIBRARY}"),
        (isinstance(tags, list) and LIBRARY in tags, f"tags do not contain {LIBRARY}"),
        (bool(read_languages(values)), "language is missing or invalid"),
    )


def _parse_head(card: str) -> dict[str, Any]:
    """Parse the YAML between the two `---` lines at the start of a card."""
    match = re.match(r"---[ \t\r]*\n(.*?)^---[ \t\r]*$", card, re.DOTALL | re.MULTILINE)
    head = match[1] if match else ""
    if len(head) > MAX_HEAD_CHARS:
        raise ModelFolderError(f"the YAML header is longer than {MAX_HEAD_CHARS:,} characters")
    try:
        values = yaml.load(head, _TextLoader)
    except ModelFolderError:
        raise
    except Exception as error:  # PyYAML also raises ValueError, RecursionError, ...
        raise ModelFolderError(
            f"the YAML header is not valid YAML, {type(error).__name__}"
        ) from None
    if values and not isinstance(values, dict):
        raise ModelFolderError("the YAML header is not a mapping")
    return values or {}


def read_languages(metadata: dict[str, Any]) -> tuple[str, ...]:
    """Return the languages of the card, source first."""
    languages = metadata.get("language")
    listed = languages if isinstance(languages, list) else [languages]
    return tuple(
        language
        for language in listed
        if isinstance(language, str) and LANGUAGE_TAG.fullmatch(language)
    )


def read_scores(metadata: dict[str, Any]) -> tuple[Score, ...]:
    """Return the first score of each metric in `model-index`, skipping invalid entries."""
    first: dict[str, Score] = {}
    results = [r for model in _dicts(metadata, "model-index") for r in _dicts(model, "results")]
    for result in results:
        dataset = result.get("dataset")
        dataset = dataset.get("name") if isinstance(dataset, dict) else None
        where = dataset.encode("utf-8", "replace").decode() if isinstance(dataset, str) else ""
        for metric in _dicts(result, "metrics"):
            name = METRIC_NAMES.get(str(metric.get("type")).lower())
            number = _number(metric.get("value"))
            if name and 0 <= number <= 100:
                first.setdefault(name, Score(name, number, where))
    return tuple(first.values())


def _number(value: Any) -> float:
    try:  # strings in a card, numbers from the Hub
        return float(value) if isinstance(value, (str, int, float)) else math.nan
    except (ValueError, OverflowError):
        return math.nan


def _dicts(values: dict[Any, Any], key: str) -> list[dict[Any, Any]]:
    found = values.get(key)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []

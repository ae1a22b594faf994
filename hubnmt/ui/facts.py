"""What can be said about a model at a glance.

Takes its config, its card and its folder, gives languages, size and measured scores. A number that
the card does not say is left out. Must not know how to load a model, or HTML.
"""

import dataclasses
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from hubnmt.config import ModelConfig

logger = logging.getLogger(__name__)

MAX_HEAD_CHARS = 100_000
"""A card's YAML head longer than this is not read: no honest one is."""

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


@dataclasses.dataclass(frozen=True, slots=True)
class ModelFacts:
    """What the model picker shows beside a name."""

    name: str
    """The reference it was opened by."""
    src_lang: str
    """BCP 47 tag."""
    tgt_lang: str
    """BCP 47 tag."""
    n_parameters: int
    """Trainable numbers."""
    size_mb: float | None = None
    """The folder on disk in megabytes (10^6 bytes), where there is a folder."""
    scores: tuple[Score, ...] = ()
    """From the card's `model-index`, at most one per metric, in the card's order."""


def read_facts(name: str, config: ModelConfig, card: str, folder: Path | None) -> ModelFacts:
    """Gather what config, card and folder say."""
    return ModelFacts(
        name=name,
        src_lang=config.src_lang,
        tgt_lang=config.tgt_lang,
        n_parameters=config.n_parameters,
        size_mb=None if folder is None else _folder_size(folder) / 1e6,
        scores=read_scores(card),
    )


def _folder_size(folder: Path) -> int:
    """Sum the sizes of a folder's own files, in bytes."""
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


def read_scores(card: str) -> tuple[Score, ...]:
    """Read the measured scores of a model card.

    A card without scores, or one that cannot be read, has none: the model works without.
    """
    head = _front_matter(card)
    if len(head) > MAX_HEAD_CHARS:
        return ()
    try:
        metadata = yaml.safe_load(head)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        logger.warning("no scores shown, the model card cannot be read (%s)", type(error).__name__)
        return ()
    first: dict[str, Score] = {}
    for score in _scores(metadata):
        first.setdefault(score.metric, score)
    return tuple(first.values())


def _front_matter(text: str) -> str:
    """Return the YAML between the two `---` lines that open a card, or nothing."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != "---":
        return ""
    end = next((i for i, line in enumerate(lines[1:], 1) if line.strip() == "---"), 0)
    return "\n".join(lines[1:end])


def _scores(metadata: Any) -> Iterator[Score]:
    """Walk `model-index` -> results -> metrics, past whatever has another shape."""
    index = metadata.get("model-index") if isinstance(metadata, dict) else None
    for model in _dicts(index):
        for result in _dicts(model.get("results")):
            dataset = result.get("dataset")
            dataset_name = dataset.get("name", "") if isinstance(dataset, dict) else ""
            for metric in _dicts(result.get("metrics")):
                name = METRIC_NAMES.get(str(metric.get("type")).lower())
                value = metric.get("value")
                if name and isinstance(value, (int, float)) and 0 <= value <= 100:
                    yield Score(name, float(value), str(dataset_name))


def _dicts(value: Any) -> Iterator[dict[Any, Any]]:
    """Yield the dictionaries of a list; nothing if it is no list."""
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))

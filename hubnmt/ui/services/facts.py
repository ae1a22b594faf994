"""What can be said about a model at a glance.

Takes its config, its card and its folder, gives languages, size and measured scores. A number that
the card does not say is left out. Must not know how to load a model, or HTML.
"""

import dataclasses
from pathlib import Path

from hubnmt.checkpoint.metadata import Score, read_metadata, read_scores
from hubnmt.config import ModelConfig


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

    card: str = ""
    """As the folder has it: Markdown, by anybody."""

    @property
    def measured_on(self) -> str:
        """The test set that the card names first; may be empty."""
        return self.scores[0].dataset if self.scores else ""


def read_facts(name: str, config: ModelConfig, card: str, folder: Path | None) -> ModelFacts:
    """Gather what config, card and folder say."""
    return ModelFacts(
        name=name,
        src_lang=config.src_lang,
        tgt_lang=config.tgt_lang,
        n_parameters=config.n_parameters,
        size_mb=None if folder is None else _folder_size(folder) / 1e6,
        scores=read_scores(read_metadata(card)),
        card=card,
    )


def _folder_size(folder: Path) -> int:
    """Sum the sizes of a folder's own files, in bytes."""
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())

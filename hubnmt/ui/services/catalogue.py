"""What is known of the page's models: description, language pairs, and those of the Hub."""

import dataclasses
import logging
import re
from pathlib import Path
from typing import Any

from hubnmt.checkpoint.description import load_config
from hubnmt.checkpoint.metadata import Score, read_card, read_metadata, read_scores
from hubnmt.config import ModelConfig
from hubnmt.errors import HubError, HubNMTError, ModelNotFoundError
from hubnmt.hub.listing import ListedModel, list_cached, list_hub
from hubnmt.text.languages import language_name, main_tag
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.text_format import short_count

logger = logging.getLogger(__name__)

N_SUGGESTED = 100
"""Maximum number of Hub models listed: one page of results, most recently modified first."""


@dataclasses.dataclass(frozen=True, slots=True)
class ModelFacts:
    """Model metadata shown in the page."""

    name: str
    """Reference used to open the model."""
    src_lang: str
    tgt_lang: str
    n_parameters: int
    size_mb: float | None = None
    """Size of the folder in megabytes (10^6 bytes); None without a folder."""
    scores: tuple[Score, ...] = ()
    """Scores in the card's `model-index`, at most one per metric, in its order."""
    card: str = ""
    """Text of the model card: untrusted Markdown."""

    @property
    def description(self) -> str:
        """Rest of the model card's title after the languages; may be empty."""
        title = re.search(r"^# [^,\n]+, (.{1,200})$", self.card, re.MULTILINE)
        return title[1] if title else ""

    @property
    def measured_on(self) -> str:
        """First test set in the model card; may be empty."""
        return self.scores[0].dataset if self.scores else ""


def read_facts(name: str, config: ModelConfig, card: str, folder: Path | None) -> ModelFacts:
    """Collect model metadata from config, card and folder."""
    files = [] if folder is None else [path for path in folder.iterdir() if path.is_file()]
    return ModelFacts(
        name=name,
        src_lang=config.src_lang,
        tgt_lang=config.tgt_lang,
        n_parameters=config.n_parameters,
        size_mb=None if folder is None else sum(path.stat().st_size for path in files) / 1e6,
        scores=read_scores(read_metadata(card)),
        card=card,
    )


def list_pairs(registry: ModelRegistry) -> dict[str, tuple[str, str]]:
    """Map the page's own models to source and target language; empty strings if unreadable."""
    return {name: _read_pair(registry, name) for name in registry.names}


def _read_pair(registry: ModelRegistry, name: str) -> tuple[str, str]:
    folder = registry.folder(name)
    try:
        config = registry.get(name).config if folder is None else load_config(folder)
    except HubNMTError:
        return "", ""
    return config.src_lang, config.tgt_lang


def find_model(registry: ModelRegistry, src_lang: Any, tgt_lang: Any) -> str:
    """Return the first of the page's own models for a language pair.

    Raises:
        ModelNotFoundError: naming the pairs that there are.
    """
    known = {
        name: (main_tag(src), main_tag(tgt)) for name, (src, tgt) in list_pairs(registry).items()
    }
    wanted = tuple(main_tag(tag) if isinstance(tag, str) else "" for tag in (src_lang, tgt_lang))
    for name, pair in known.items():
        if pair == wanted and all(pair):
            return name
    pairs = ", ".join(" to ".join(pair) for pair in dict.fromkeys(known.values()) if all(pair))
    asked = " to ".join(str(tag)[:20] or "(none)" for tag in (src_lang, tgt_lang))
    raise ModelNotFoundError(f"no model translates {asked}; there are: {pairs}")


def language_lists(registry: ModelRegistry, opened: ModelFacts) -> dict[str, Any]:
    """Return the value of `assets/languages.js`.

    Listed are the page's own models, the open one and one that translates back, if there is any.
    """
    cached = {model.name: _cached_facts(model) for model in list_cached()}
    own = {name: _read_folder(registry, name) or cached.get(name) for name in registry.names}
    models = {name: facts for name, facts in own.items() if facts} | {opened.name: opened}
    known = [*models.values(), *(cached.values() if registry.allow_hub else ())]
    wanted = opened.tgt_lang, opened.src_lang
    reverse = next((facts for facts in known if (facts.src_lang, facts.tgt_lang) == wanted), opened)
    models.setdefault(reverse.name, reverse)
    return {
        "models": [_describe(facts) for facts in models.values()],
        "opened": opened.name,
        "has_more": registry.allow_local or registry.allow_hub,
    }


def _cached_facts(model: ListedModel) -> ModelFacts:
    return ModelFacts(model.name, model.src_lang, model.tgt_lang, model.n_parameters or 0)


def _read_folder(registry: ModelRegistry, name: str) -> ModelFacts | None:
    folder = registry.folder(name)
    if folder is None:
        return None
    try:
        return read_facts(name, load_config(folder), read_card(folder), folder)
    except HubNMTError:
        return None


def _describe(facts: ModelFacts) -> dict[str, str]:
    src_name, tgt_name = language_name(facts.src_lang), language_name(facts.tgt_lang)
    size = short_count(facts.n_parameters)
    return {
        "name": facts.name,
        "src": facts.src_lang,
        "tgt": facts.tgt_lang,
        "src_name": src_name,
        "tgt_name": tgt_name,
        "label": f"{src_name} to {tgt_name}, {size}: {facts.description or facts.name}",
    }


def suggest_models(registry: ModelRegistry) -> list[tuple[str, str]]:
    """Return the picker's suggestions as (label, reference), the page's own models first.

    Without the Hub only the page's own and the cached models are suggested.
    """
    suggested = [(name, name) for name in registry.names]
    if registry.allow_hub:
        suggested += [(_label(model), model.name) for model in list_cached()]
        try:
            found = list_hub(limit=N_SUGGESTED)
            suggested += [(_label(model), model.name) for model in found]
        except HubError as error:
            logger.warning("cannot list models on the Hub: %s", error)
    labels: dict[str, str] = {}
    for label, name in suggested:
        labels.setdefault(name, label)
    return [(label, name) for name, label in labels.items()]


def _label(model: ListedModel) -> str:
    """Format a label such as `user/name (de to en, BLEU 41.2, 19 MB)`."""
    facts = [f"{model.src_lang} to {model.tgt_lang}"] if model.src_lang else []
    facts += [f"{score.metric} {score.value:.1f}" for score in model.scores[:1]]
    if model.size_bytes is not None:
        facts.append(f"{model.size_bytes / 1e6:.0f} MB")
    return f"{model.name} ({', '.join(facts)})" if facts else model.name

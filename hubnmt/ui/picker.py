"""Which models the page suggests: its own, those in the cache, and the Hub's.

Takes the registry and the catalogue of the Hub, gives a label and a reference for each, and which
one translates back. Must not
know Gradio. The Hub in trouble suggests nothing, and the page works on without.
"""

import logging
from pathlib import Path

from hubnmt.checkpoint import load_config
from hubnmt.errors import HubError, HubNMTError
from hubnmt.hub import Catalogue, ListedModel, list_cached
from hubnmt.ui.registry import ModelRegistry

logger = logging.getLogger(__name__)

N_SUGGESTED = 100
"""Models of the Hub: one answer of its, the last changed first; typing an author or a part of a
name narrows them down. Any other can be typed whole."""


def suggest_models(registry: ModelRegistry, catalogue: Catalogue) -> list[tuple[str, str]]:
    """List what the picker offers, as (label, reference); what this page opens by name comes first.

    Returns:
        the page's own models alone if it opens no others.
    """
    suggested = {name: name for name in registry.names}
    if registry.allow_hub:
        for model in [*list_cached(), *_ask_hub(catalogue)]:
            suggested.setdefault(model.name, _label(model))
    return [(label, name) for name, label in suggested.items()]


def find_reverse(registry: ModelRegistry, model: str) -> str:
    """Name a model on this machine that translates back; empty where there is none.

    Raises:
        HubNMTError: if this page does not open the model.
    """
    config = registry.get(model).config
    wanted = (config.tgt_lang, config.src_lang)
    known = [(name, _read_pair(registry.folder(name))) for name in registry.names]
    if registry.allow_hub:
        known += [(each.name, (each.src_lang, each.tgt_lang)) for each in list_cached()]
    return next((name for name, pair in known if pair == wanted), "")


def _read_pair(folder: Path | None) -> tuple[str, str]:
    """Read the languages of a model that need not be opened; two empty ones if nobody can tell."""
    try:
        config = None if folder is None else load_config(folder)
    except HubNMTError:
        config = None
    return (config.src_lang, config.tgt_lang) if config else ("", "")


def _ask_hub(catalogue: Catalogue) -> list[ListedModel]:
    try:
        return catalogue.page(size=N_SUGGESTED)
    except HubError as error:
        logger.warning("no models of the Hub are suggested: %s", error)
        return []


def _label(model: ListedModel) -> str:
    """Say what is known: `user/name (de to en, BLEU 41.2, 19 MB)`."""
    facts = [f"{model.src_lang} to {model.tgt_lang}"] if model.src_lang else []
    facts += [f"{score.metric} {score.value:.1f}" for score in model.scores[:1]]
    if model.size_bytes is not None:
        facts.append(f"{model.size_bytes / 1e6:.0f} MB")
    return f"{model.name} ({', '.join(facts)})" if facts else model.name

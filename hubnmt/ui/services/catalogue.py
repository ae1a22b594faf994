"""Which models the page suggests: its own, those in the cache, and the Hub's.

Takes the registry and the catalogue of the Hub, gives a label and a reference for each, and which
one translates back; reads what was typed as a search. Must not know Gradio. The Hub in trouble
suggests nothing, and the page works on without.
"""

import dataclasses
import logging
import re
from pathlib import Path

from hubnmt.checkpoint.folder import load_config
from hubnmt.errors import HubError, HubNMTError
from hubnmt.hub.listing import Catalogue, ListedModel, list_cached
from hubnmt.ui.services.registry import ModelRegistry

logger = logging.getLogger(__name__)

N_SUGGESTED = 100
"""Models of the Hub: one answer of its, the last changed first; typing an author or a part of a
name narrows them down. Any other can be searched for, or typed whole."""

SEARCH = re.compile(r"(?:([\w.-]{1,96})/(?:\s+|$))?([^/\\]{0,100})", re.ASCII)
"""`words`, `user/` or `user/ words`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Search:
    """What is looked for on the Hub."""

    typed: str
    author: str
    words: str


def read_search(registry: ModelRegistry, typed: str) -> Search | None:
    """Read what was typed into the picker as a search; None where it names a model or a folder.

    Nothing is a search on a page that opens no others.
    """
    if not registry.allow_hub or not isinstance(typed, str):
        return None
    name = registry.name(typed)
    match = SEARCH.fullmatch(name)
    if not match or name in registry.names or _is_folder(registry, name):
        return None
    return Search(name, match[1] or "", match[2])


def search_models(search: Search, catalogue: Catalogue) -> list[tuple[str, str]]:
    """List what the Hub finds, as (label, reference), the last changed first.

    Returns:
        at most `N_SUGGESTED`.

    Raises:
        HubError: if the Hub refuses or cannot be reached.
    """
    found = catalogue.page(author=search.author, search=search.words, size=N_SUGGESTED)
    return [(_label(model), model.name) for model in found]


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


def _is_folder(registry: ModelRegistry, name: str) -> bool:
    """Tell whether a path is meant: one that is there, or one that looks like it."""
    try:
        return name.startswith((".", "~")) or registry.folder(name) is not None
    except (OSError, ValueError):  # longer than a path can be, or a character that none has
        return False


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

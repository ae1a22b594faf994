"""Model suggestions, Hub search and lookup of reverse-direction models for the picker.

If the Hub cannot be reached, nothing is suggested and the page continues to work.
"""

import dataclasses
import logging
import re
from typing import Any

from hubnmt.checkpoint.description import load_config
from hubnmt.errors import HubError, HubNMTError, ModelNotFoundError
from hubnmt.hub.listing import Catalogue, ListedModel, list_cached
from hubnmt.text.languages import main_tag
from hubnmt.ui.services.registry import ModelRegistry

logger = logging.getLogger(__name__)

N_SUGGESTED = 100
"""Maximum number of Hub models listed: one page of results, most recently modified first."""

SEARCH = re.compile(r"(?:([\w.-]{1,96})/(?:\s+|$))?([^/\\]{0,100})", re.ASCII)
"""Search syntax: `words`, `user/` or `user/ words`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Search:
    """A search of the Hub."""

    typed: str
    author: str
    words: str


def read_search(registry: ModelRegistry, typed: str) -> Search | None:
    """Parse the picker's input as a search; None if it denotes a model or a folder.

    Always None if the page does not allow Hub models.
    """
    if not registry.allow_hub or not isinstance(typed, str):
        return None
    name = registry.name(typed)
    match = SEARCH.fullmatch(name)
    if not match or name in registry.names or _is_folder(registry, name):
        return None
    return Search(name, match[1] or "", match[2])


def search_models(search: Search, catalogue: Catalogue) -> list[tuple[str, str]]:
    """Search the Hub; return (label, reference) pairs, most recently modified first.

    Returns:
        at most `N_SUGGESTED` results.

    Raises:
        HubError: if the request fails.
    """
    found = catalogue.page(author=search.author, search=search.words, size=N_SUGGESTED)
    return [(_label(model), model.name) for model in found]


def suggest_models(registry: ModelRegistry, catalogue: Catalogue) -> list[tuple[str, str]]:
    """Return the picker's suggestions as (label, reference), the page's own models first.

    Returns:
        only the page's own models if it does not allow Hub models.
    """
    suggested = {name: name for name in registry.names}
    if registry.allow_hub:
        for model in [*list_cached(), *_list_hub(catalogue)]:
            suggested.setdefault(model.name, _label(model))
    return [(label, name) for name, label in suggested.items()]


def find_reverse(registry: ModelRegistry, model: str) -> str:
    """Return a local model for the reverse direction; empty if there is none.

    Raises:
        HubNMTError: if the model is not allowed or cannot be loaded.
    """
    config = registry.get(model).config
    wanted = (config.tgt_lang, config.src_lang)
    known = list_pairs(registry)
    if registry.allow_hub:
        known |= {each.name: (each.src_lang, each.tgt_lang) for each in list_cached()}
    return next((name for name, pair in known.items() if pair == wanted), "")


def list_pairs(registry: ModelRegistry) -> dict[str, tuple[str, str]]:
    """Map the page's own models to source and target language; empty strings if unreadable."""
    return {name: _read_pair(registry, name) for name in registry.names}


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


def _is_folder(registry: ModelRegistry, name: str) -> bool:
    """Return whether a name denotes a path: an existing folder, or a name that starts like one."""
    try:
        return name.startswith((".", "~")) or registry.folder(name) is not None
    except (OSError, ValueError):  # path too long or with an invalid character
        return False


def _read_pair(registry: ModelRegistry, name: str) -> tuple[str, str]:
    folder = registry.folder(name)
    try:
        config = registry.get(name).config if folder is None else load_config(folder)
    except HubNMTError:
        return "", ""
    return config.src_lang, config.tgt_lang


def _list_hub(catalogue: Catalogue) -> list[ListedModel]:
    try:
        return catalogue.page(size=N_SUGGESTED)
    except HubError as error:
        logger.warning("cannot list models on the Hub: %s", error)
        return []


def _label(model: ListedModel) -> str:
    """Format a label such as `user/name (de to en, BLEU 41.2, 19 MB)`."""
    facts = [f"{model.src_lang} to {model.tgt_lang}"] if model.src_lang else []
    facts += [f"{score.metric} {score.value:.1f}" for score in model.scores[:1]]
    if model.size_bytes is not None:
        facts.append(f"{model.size_bytes / 1e6:.0f} MB")
    return f"{model.name} ({', '.join(facts)})" if facts else model.name

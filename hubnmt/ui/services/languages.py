"""Language pairs and their models, for the lists above the page."""

from typing import Any

from hubnmt.checkpoint.description import load_config, read_card
from hubnmt.errors import HubNMTError
from hubnmt.hub.listing import list_cached
from hubnmt.text.languages import language_name
from hubnmt.ui.services.catalogue import find_reverse
from hubnmt.ui.services.registry import ModelFacts, ModelRegistry, read_facts
from hubnmt.ui.services.text_format import short_count


def language_lists(registry: ModelRegistry, opened: ModelFacts) -> dict[str, Any]:
    """Return the value of `assets/languages.js` for an open model.

    Listed are the page's own models, the open one and one that translates back, if there is any.
    """
    models = {name: _find_facts(registry, name) for name in registry.names}
    models[opened.name] = opened
    reverse = find_reverse(registry, opened.name)
    if reverse:
        models.setdefault(reverse, _find_facts(registry, reverse))
    return {
        "models": [_describe(facts) for facts in models.values() if facts],
        "opened": opened.name,
        "has_more": registry.allow_local or registry.allow_hub,
    }


def _find_facts(registry: ModelRegistry, name: str) -> ModelFacts | None:
    """Read the metadata of a local or cached model; None if that fails."""
    folder = registry.folder(name)
    try:
        if folder is not None:
            return read_facts(name, load_config(folder), read_card(folder), folder)
    except HubNMTError:
        return None
    cached = next((each for each in list_cached() if each.name == name), None)
    if cached is None:
        return None
    return ModelFacts(name, cached.src_lang, cached.tgt_lang, cached.n_parameters or 0)


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

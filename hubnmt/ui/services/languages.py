"""Language pairs and their models."""

from typing import Any

from hubnmt.checkpoint.description import load_config, read_card
from hubnmt.errors import HubNMTError, ModelNotFoundError
from hubnmt.hub.listing import list_cached
from hubnmt.text.languages import language_name, main_tag
from hubnmt.ui.services.registry import ModelFacts, ModelRegistry, read_facts
from hubnmt.ui.services.text_format import short_count


def language_lists(registry: ModelRegistry, opened: ModelFacts) -> dict[str, Any]:
    """Return the value of `assets/languages.js` for an open model.

    Listed are the page's own models, the open one and one that translates back, if there is any.
    """
    models = {name: _find_facts(registry, name) for name in registry.names}
    models[opened.name] = opened
    reverse = find_reverse(registry, opened)
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


def find_reverse(registry: ModelRegistry, opened: ModelFacts) -> str:
    """Return a local model for the reverse direction; empty if there is none."""
    known = list_pairs(registry)
    if registry.allow_hub:
        known |= {each.name: (each.src_lang, each.tgt_lang) for each in list_cached()}
    wanted = opened.tgt_lang, opened.src_lang
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


def _read_pair(registry: ModelRegistry, name: str) -> tuple[str, str]:
    folder = registry.folder(name)
    try:
        config = registry.get(name).config if folder is None else load_config(folder)
    except HubNMTError:
        return "", ""
    return config.src_lang, config.tgt_lang

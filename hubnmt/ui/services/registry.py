"""The page's models: which ones it may open, their loading, and what is known of them."""

import contextlib
import dataclasses
import itertools
import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hubnmt.checkpoint.files import CONFIG, load_config, load_decoding
from hubnmt.checkpoint.metadata import read_card, read_metadata, read_scores
from hubnmt.config import DecodingConfig
from hubnmt.errors import HubError, HubNMTError, ModelNotFoundError
from hubnmt.hub.client import HubReference, parse_reference
from hubnmt.hub.listing import ListedModel, evict_lru, list_cached, list_hub
from hubnmt.hub.pull import find_cached, pull
from hubnmt.text.languages import language_name, main_tag
from hubnmt.translator import Translator
from hubnmt.ui.services.text_format import short_count

logger = logging.getLogger(__name__)

MAX_MODEL_MB = 500
"""Maximum size of a model downloaded by the page, in megabytes (10^6 bytes)."""

MAX_CACHE_MB = 5_000
"""Maximum size of the Hub cache on a public page, in megabytes (10^6 bytes)."""

MAX_TOKENIZER_MIB = 8
"""Maximum size of a tokenizer file on a public page: a vocabulary of about 100,000."""

MAX_OPEN_MODELS = 2
"""Maximum number of models in memory: enough to alternate between two."""

N_SUGGESTED = 100
"""Maximum number of Hub models listed: one page of results, most recently modified first."""


def load_bounded(name: str, load: Callable[[str], Translator], *, is_public: bool) -> Translator:
    """Load a model; a Hub model only if its size is known and within the limits.

    A public page also bounds tokenizer files, which take much memory to load, and the Hub cache.
    """
    reference = _find_on_hub(name)
    if reference is None:
        return load(name)
    try:
        folder = pull(reference, max_bytes=int(MAX_MODEL_MB * 10**6))
        for path in folder.glob("tokenizer*.json"):
            if is_public and path.stat().st_size > MAX_TOKENIZER_MIB * 2**20:
                raise HubError(
                    f"{name}: {path.name} is larger than the {MAX_TOKENIZER_MIB} MiB limit of this "
                    "page; run the page locally to open it"
                )
        translator = load(str(folder))
        translator.name, translator.commit = name, folder.name
        return translator
    finally:
        if is_public:
            evict_lru(MAX_CACHE_MB * 10**6)


def _is_folder(name: str) -> bool:
    try:
        return Path(name).is_dir()
    except OSError:  # longer than the file system allows
        return False


def _find_on_hub(name: str) -> HubReference | None:
    """Return the Hub model of this name; None for a local folder and for what names no model."""
    try:
        return None if _is_folder(name) else parse_reference(name)
    except HubError:  # invalid revision
        return None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ModelFacts:
    """Model metadata shown in the page."""

    name: str
    """Reference used to open the model."""
    src_lang: str
    tgt_lang: str
    n_parameters: int
    decoding: DecodingConfig
    """The model's default decoding options."""
    size_mb: float | None = None
    """Size of the folder in megabytes (10^6 bytes); None without a folder."""
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
        scores = read_scores(read_metadata(self.card))
        return scores[0].dataset if scores else ""


class ModelRegistry:
    """Models available to the page.

    Bundled models and the one given at start-up are always allowed, those of the Hub with
    `allow_hub`. Other local folders are private, so `allow_local` is for a single local user.
    """

    def __init__(
        self,
        load: Callable[[str], Translator],
        bundled: Mapping[str, Path],
        *,
        opening: str = "",
        allow_local: bool = False,
        allow_hub: bool = False,
    ) -> None:
        """Configure the registry, whose models are loaded by `load` on first use.

        `bundled` maps names to folders; without `opening` the first of them is the default model.
        """
        if not opening and not bundled:
            raise ModelNotFoundError("no bundled model found: specify one with --model MODEL")
        self.allow_local = allow_local
        self.allow_hub = allow_hub
        self.opening = opening or next(iter(bundled))
        self._load = load
        self._bundled = dict(bundled)
        self._open: OrderedDict[str, Translator] = OrderedDict()
        self._offered: set[str] = set()
        self._own_facts: dict[str, ModelFacts] = {}
        self._lock = threading.Lock()
        self._loading = {True: threading.Lock(), False: threading.Lock()}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the default and the bundled models, the default first."""
        return tuple(dict.fromkeys((self.opening, *self._bundled)))

    def name(self, reference: str) -> str:
        """Normalize a reference; an empty one selects the default model."""
        if not isinstance(reference, str):
            # Only an API client can send it.
            raise ModelNotFoundError(f"model must be a string, not {type(reference).__name__}")
        return reference.strip() or self.opening

    def get(self, reference: str) -> Translator:
        """Return a model's translator, loading it if necessary; empty selects the default model.

        One model is loaded at a time, and beside it one from the Hub, which may have to come first.
        """
        reference = self.name(reference)
        self._check(reference)
        translator = self._open.get(reference)
        if translator is None:
            with self._loading[_find_on_hub(reference) is not None]:
                translator = self._open.get(reference) or self._load(reference)
        with self._lock:
            self._open[reference] = translator
            self._open.move_to_end(reference)
            if len(self._open) > MAX_OPEN_MODELS:
                self._open.popitem(last=False)
        return translator

    def offer(self, folder: str) -> None:
        """Allow a model folder, and load it anew at its next use."""
        with self._lock:
            self._offered.add(folder)
            self._open.pop(folder, None)

    def folder(self, reference: str) -> Path | None:
        """Return a model's folder; None if it has none here, or is not allowed."""
        reference = self.name(reference)
        if reference in self._bundled:
            return self._bundled[reference]
        if not self._is_allowed(reference):
            return None
        on_hub = _find_on_hub(reference)
        if on_hub is not None:
            return find_cached(on_hub)
        return Path(reference) if _is_folder(reference) else None

    def facts(self, reference: str) -> ModelFacts:
        """Return what is known of a model, which is loaded only if its folder does not tell it."""
        name = self.name(reference)
        folder = self.folder(name)
        if folder is not None and (folder / CONFIG).is_file():
            config, decoding = load_config(folder), load_decoding(folder)
            card = read_card(folder)
        else:
            translator = self.get(name)
            config, decoding, card = translator.config, translator.decoding, translator.card
        sizes = [path.stat().st_size for path in folder.iterdir()] if folder else []
        return ModelFacts(
            name=name,
            src_lang=config.src_lang,
            tgt_lang=config.tgt_lang,
            n_parameters=config.n_parameters,
            decoding=decoding,
            size_mb=sum(sizes) / 1e6 if sizes else None,
            card=card,
        )

    def open(self, reference: str) -> ModelFacts:
        """Load a model and return what is known of it."""
        self.get(reference)
        return self.facts(reference)

    def own_facts(self) -> dict[str, ModelFacts]:
        """Return what is known of the default and the bundled models, read once if readable."""
        for name in self.names:
            if name not in self._own_facts:
                with contextlib.suppress(HubNMTError):
                    self._own_facts[name] = self.facts(name)
        return dict(self._own_facts)

    def _is_allowed(self, reference: str) -> bool:
        is_own = reference in self.names or reference in self._offered
        return is_own or (self.allow_hub if _find_on_hub(reference) else self.allow_local)

    def _check(self, reference: str) -> None:
        """Refuse models that are not allowed, without revealing which local paths exist."""
        if self._is_allowed(reference):
            return
        kinds = [*self.names]
        kinds += ["a local folder"] if self.allow_local else []
        kinds += ["a Hub model (user/name)"] if self.allow_hub else []
        raise ModelNotFoundError(
            f"{reference[:120]!r} is not available on this page; choose one of: {', '.join(kinds)}"
        )


def list_pairs(registry: ModelRegistry) -> dict[str, tuple[str, str]]:
    """Map the page's own models that can be read to source and target language, as main tags."""
    own = registry.own_facts()
    return {
        name: (main_tag(facts.src_lang), main_tag(facts.tgt_lang)) for name, facts in own.items()
    }


def find_model(registry: ModelRegistry, src_lang: str, tgt_lang: str) -> str:
    """Return the first of the page's own models for a language pair."""
    pairs = list_pairs(registry)
    wanted = main_tag(str(src_lang)), main_tag(str(tgt_lang))
    for name, pair in pairs.items():
        if pair == wanted:
            return name
    asked = " to ".join(str(tag)[:20] or "(none)" for tag in (src_lang, tgt_lang))
    known = ", ".join(map(" to ".join, dict.fromkeys(pairs.values())))
    raise ModelNotFoundError(f"no model translates {asked}; there are: {known}")


def language_lists(registry: ModelRegistry, opened: ModelFacts) -> dict[str, Any]:
    """Return the value of `assets/languages.js`.

    Listed are the page's own models, the open one and one that translates back, if there is any.
    """
    models = registry.own_facts() | {opened.name: opened}
    wanted = opened.tgt_lang, opened.src_lang
    has_way_back = any((facts.src_lang, facts.tgt_lang) == wanted for facts in models.values())
    if registry.allow_hub and not has_way_back:
        cached = (each for each in list_cached() if (each.src_lang, each.tgt_lang) == wanted)
        models |= {each.name: registry.facts(each.name) for each in itertools.islice(cached, 1)}
    return {
        "models": [_describe(facts) for facts in models.values()],
        "opened": opened.name,
        "has_more": registry.allow_local or registry.allow_hub,
    }


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

    If the Hub cannot be reached, only the page's own and the cached models are suggested.
    """
    labels = {name: name for name in registry.names}
    listed = list_cached()
    try:
        listed += list_hub(limit=N_SUGGESTED)
    except HubError as error:
        logger.warning("cannot list models on the Hub: %s", error)
    for model in listed:
        labels.setdefault(model.name, _label(model))
    return [(label, name) for name, label in labels.items()]


def _label(model: ListedModel) -> str:
    """Format a label such as `user/name (de to en, BLEU 41.2, 19 MB)`."""
    facts = [f"{model.src_lang} to {model.tgt_lang}"] if model.src_lang else []
    facts += [f"{score.metric} {score.value:.1f}" for score in model.scores[:1]]
    if model.size_bytes is not None:
        facts.append(f"{model.size_bytes / 1e6:.0f} MB")
    return f"{model.name} ({', '.join(facts)})" if facts else model.name

"""Registry of the models the page may open: access control, lazy loading and an LRU cache."""

import dataclasses
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path

from hubnmt.checkpoint.metadata import Score, read_metadata, read_scores
from hubnmt.config import ModelConfig
from hubnmt.errors import HubError, ModelNotFoundError
from hubnmt.hub.client import find_cached
from hubnmt.hub.listing import evict_lru
from hubnmt.hub.pull import pull
from hubnmt.hub.reference import parse_reference
from hubnmt.translator import Translator

MAX_MODEL_MB = 500
"""Maximum size of a model downloaded by the page, in megabytes (10^6 bytes)."""

MAX_CACHE_MB = 5_000
"""Maximum size of the Hub cache on a public page, in megabytes (10^6 bytes)."""


MAX_TOKENIZER_MIB = 8
"""Maximum size of a tokenizer file on a public page: a vocabulary of about 100,000."""


@dataclasses.dataclass(frozen=True, slots=True)
class BoundedLoad:
    """Load a model; a Hub model only if its size is known and within the limit."""

    load: Callable[[str], Translator]
    forgets: bool
    """Whether to evict models from the Hub cache, as a public page does."""

    def __call__(self, name: str) -> Translator:
        """Load a model by its reference.

        Raises:
            HubNMTError: if it is too large, or cannot be loaded.
        """
        reference = None if _is_local(name) else parse_reference(name)
        if reference is None:
            return self.load(name)
        try:
            pulled = pull(reference, max_bytes=int(MAX_MODEL_MB * 10**6))
            if self.forgets:
                _check_tokenizers(pulled.folder, name)
            translator = self.load(str(pulled.folder))
            translator.name, translator.commit = name, pulled.commit
            return translator
        finally:
            if self.forgets:
                evict_lru(MAX_CACHE_MB * 10**6)


def _check_tokenizers(folder: Path, name: str) -> None:
    """Refuse tokenizer files that would take too much memory to load.

    Raises:
        HubError: naming the file and the limit.
    """
    for path in folder.glob("tokenizer*.json"):
        if path.stat().st_size > MAX_TOKENIZER_MIB * 2**20:
            raise HubError(
                f"{name}: {path.name} is larger than the {MAX_TOKENIZER_MIB} MiB limit of this "
                "page; run the page locally to open it"
            )


def _is_local(name: str) -> bool:
    """Return whether a path exists on this machine."""
    try:
        return Path(name).exists()
    except OSError:  # longer than the file system allows
        return False


@dataclasses.dataclass(frozen=True, slots=True)
class ModelFacts:
    """Model metadata shown in the page."""

    name: str
    """Reference used to open the model."""
    src_lang: str
    """BCP 47 tag."""
    tgt_lang: str
    """BCP 47 tag."""
    n_parameters: int
    """Number of trainable parameters."""
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
    """Return the total size of the files directly in a folder, in bytes."""
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


MAX_OPEN_MODELS = 2
"""Maximum number of models in memory: enough to alternate between two."""


MAX_WAIT_S = 1.0
"""How long `get` waits for another download to finish: about the time to load a cached model."""


class ModelRegistry:
    """Models available to the page.

    Bundled models and the one given at start-up are always allowed. Other local folders are
    private, so they are only allowed if the page serves a single local user; see `allow_local`.
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
        """Configure the registry; models are loaded on first use.

        Args:
            load: reference -> translator.
            bundled: name -> folder of the models shipped with the package.
            opening: the default model; empty selects the first bundled one.
            allow_local: whether users may open any local folder.
            allow_hub: whether users may open Hub repositories.

        Raises:
            ModelNotFoundError: if there is no default model.
        """
        if not opening and not bundled:
            raise ModelNotFoundError("no bundled model found: specify one with --model MODEL")
        self.allow_local = allow_local
        self.allow_hub = allow_hub
        self.opening = opening or next(iter(bundled))
        self._load = load
        self._bundled = dict(bundled)
        self._open: OrderedDict[str, Translator] = OrderedDict()
        self._lock = threading.Lock()
        self._loading: dict[str, threading.Lock] = {}
        self._fetching = threading.Lock()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the default and the bundled models, the default first."""
        others = (name for name in self._bundled if name != self.opening)
        return (self.opening, *others)

    def name(self, reference: str) -> str:
        """Normalize a reference; an empty one selects the default model.

        Raises:
            ModelNotFoundError: if it is not a string, which only an API client can send.
        """
        if not isinstance(reference, str):
            raise ModelNotFoundError(f"model must be a string, not {type(reference).__name__}")
        return reference.strip() or self.opening

    def get(self, reference: str) -> Translator:
        """Return a model's translator, loading it if necessary; empty selects the default model.

        Downloads are limited to one at a time, because callers hold a scheduler turn.

        Raises:
            HubNMTError: if the model is not allowed, cannot be loaded, or must be downloaded while
                another download is in progress.
        """
        reference = self.name(reference)
        self._check(reference)
        translator = self._find(reference)
        if translator is not None:
            return translator
        if not _is_on_hub(reference):
            return self._load_once(reference)
        if not self._fetching.acquire(timeout=MAX_WAIT_S):
            raise HubError(
                f"{reference} is not loaded, and another model is being downloaded; try again in a "
                "moment"
            )
        try:
            return self._load_once(reference)
        finally:
            self._fetching.release()

    def open(self, reference: str) -> Translator:
        """Return a model's translator as `get` does, waiting for other downloads.

        Raises:
            HubNMTError: if the model is not allowed or cannot be loaded.
        """
        reference = self.name(reference)
        self._check(reference)
        return self._find(reference) or self._load_once(reference)

    def _load_once(self, reference: str) -> Translator:
        """Load a model, or wait for the thread that is loading it."""
        with self._lock:
            loading = self._loading.setdefault(reference, threading.Lock())
        with loading:  # one lock per model: other models load in parallel
            translator = self._find(reference)
            try:
                if translator is None:
                    translator = self._load(reference)
                    self._cache(reference, translator)
            finally:
                with self._lock:
                    self._loading.pop(reference, None)
        return translator

    def _find(self, reference: str) -> Translator | None:
        """Return a cached model and mark it as most recently used."""
        with self._lock:
            if reference in self._open:
                self._open.move_to_end(reference)
            return self._open.get(reference)

    def _cache(self, reference: str, translator: Translator) -> None:
        """Cache a model and evict the least recently used one if necessary."""
        with self._lock:
            self._open[reference] = translator
            while len(self._open) > MAX_OPEN_MODELS:
                self._open.popitem(last=False)

    def is_open(self, reference: str) -> bool:
        """Return whether a model is in memory."""
        with self._lock:
            return self.name(reference) in self._open

    def folder(self, reference: str) -> Path | None:
        """Return a model's local folder; None if it has none or access is not allowed."""
        if reference in self._bundled:
            return self._bundled[reference]
        is_allowed = reference == self.opening or self.allow_local
        return Path(reference) if is_allowed and Path(reference).is_dir() else None

    def cached_folder(self, reference: str) -> Path | None:
        """Return the cache folder of a Hub model that is open; None for any other model."""
        reference = self.name(reference)
        found = parse_reference(reference) if _is_on_hub(reference) else None
        return find_cached(found) if found and self.is_open(reference) else None

    def _check(self, reference: str) -> None:
        """Refuse models that are not allowed, without revealing which local paths exist.

        Raises:
            ModelNotFoundError: naming the allowed models.
        """
        if reference in self.names:
            return
        is_hub = _is_on_hub(reference)
        if self.allow_hub if is_hub else self.allow_local:
            return
        kinds = [*self.names]
        kinds += ["a local folder"] if self.allow_local else []
        kinds += ["a Hub model (user/name)"] if self.allow_hub else []
        raise ModelNotFoundError(
            f"{reference[:120]!r} is not available on this page; choose one of: {', '.join(kinds)}"
        )


def _is_on_hub(reference: str) -> bool:
    """Return whether a reference denotes a Hub model."""
    try:
        return parse_reference(reference) is not None and not Path(reference).exists()
    except HubError:  # invalid revision
        return False

"""The models that the page may open: access, lazy loading, and an LRU cache."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path

from hubnmt.errors import HubError, ModelNotFoundError
from hubnmt.hub.listing import evict_lru
from hubnmt.hub.pull import find_cached, pull
from hubnmt.hub.reference import parse_reference
from hubnmt.translator import Translator

MAX_MODEL_MB = 500
"""Maximum size of a model downloaded by the page, in megabytes (10^6 bytes)."""

MAX_CACHE_MB = 5_000
"""Maximum size of the Hub cache on a public page, in megabytes (10^6 bytes)."""

MAX_TOKENIZER_MIB = 8
"""Maximum size of a tokenizer file on a public page: a vocabulary of about 100,000."""

MAX_OPEN_MODELS = 2
"""Maximum number of models in memory: enough to alternate between two."""

MAX_WAIT_S = 60.0
"""How long a model waits until another one is downloaded."""


def load_bounded(name: str, load: Callable[[str], Translator], *, is_public: bool) -> Translator:
    """Load a model; a Hub model only if its size is known and within the limits.

    A public page also bounds tokenizer files, and evicts models from the Hub cache.

    Raises:
        HubNMTError: if it is too large, or cannot be loaded.
    """
    reference = None if _is_folder(name) else parse_reference(name)
    if reference is None:
        return load(name)
    try:
        pulled = pull(reference, max_bytes=int(MAX_MODEL_MB * 10**6))
        if is_public:
            _check_tokenizers(pulled, name)
        translator = load(str(pulled))
        translator.name, translator.commit = name, pulled.name
        return translator
    finally:
        if is_public:
            evict_lru(MAX_CACHE_MB * 10**6)


def _check_tokenizers(folder: Path, name: str) -> None:
    """Refuse tokenizer files that would take too much memory to load."""
    for path in folder.glob("tokenizer*.json"):
        if path.stat().st_size > MAX_TOKENIZER_MIB * 2**20:
            raise HubError(
                f"{name}: {path.name} is larger than the {MAX_TOKENIZER_MIB} MiB limit of this "
                "page; run the page locally to open it"
            )


def _is_folder(name: str) -> bool:
    try:
        return Path(name).is_dir()
    except OSError:  # longer than the file system allows
        return False


def _is_on_hub(reference: str) -> bool:
    try:
        return parse_reference(reference) is not None and not _is_folder(reference)
    except HubError:  # invalid revision
        return False


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
        self._offered: set[str] = set()
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

        Raises:
            HubNMTError: if the model is not allowed, cannot be loaded, or others take too long.
        """
        reference = self.name(reference)
        self._check(reference)
        if translator := self._find(reference):
            return translator
        loading = self._loading[_is_on_hub(reference)]
        if not loading.acquire(timeout=MAX_WAIT_S):
            raise HubError(f"{reference}: other models are being downloaded; try again in a moment")
        try:
            return self._find(reference) or self._load_and_keep(reference)
        finally:
            loading.release()

    def _find(self, reference: str) -> Translator | None:
        """Return an open model and mark it as most recently used."""
        with self._lock:
            if reference in self._open:
                self._open.move_to_end(reference)
            return self._open.get(reference)

    def _load_and_keep(self, reference: str) -> Translator:
        """Load a model, and close the least recently used one if there are too many."""
        translator = self._load(reference)
        with self._lock:
            self._open[reference] = translator
            while len(self._open) > MAX_OPEN_MODELS:
                self._open.popitem(last=False)
        return translator

    def offer(self, folder: str) -> None:
        """Allow a model folder, and load it anew at its next use."""
        with self._lock:
            self._offered.add(folder)
            self._open.pop(folder, None)

    def is_open(self, reference: str) -> bool:
        """Return whether a model is in memory."""
        return self.name(reference) in self._open

    def folder(self, reference: str) -> Path | None:
        """Return a model's local folder; None if it has none or access is not allowed."""
        if reference in self._bundled:
            return self._bundled[reference]
        is_allowed = reference in (self.opening, *self._offered) or self.allow_local
        return Path(reference) if is_allowed and _is_folder(reference) else None

    def cached_folder(self, reference: str) -> Path | None:
        """Return the cache folder of a Hub model that is open; None for any other model."""
        reference = self.name(reference)
        found = parse_reference(reference) if _is_on_hub(reference) else None
        return find_cached(found) if found and self.is_open(reference) else None

    def _check(self, reference: str) -> None:
        """Refuse models that are not allowed, without revealing which local paths exist."""
        if reference in self.names or reference in self._offered:
            return
        if self.allow_hub if _is_on_hub(reference) else self.allow_local:
            return
        kinds = [*self.names]
        kinds += ["a local folder"] if self.allow_local else []
        kinds += ["a Hub model (user/name)"] if self.allow_hub else []
        raise ModelNotFoundError(
            f"{reference[:120]!r} is not available on this page; choose one of: {', '.join(kinds)}"
        )

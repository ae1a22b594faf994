"""Which models this page may open, and those it has open.

Takes a reference, gives a `Translator`: loaded when first asked for, shared by all visitors, the
one that was not used for longest dropped when there are too many. Must not know Gradio or how a
model is stored.
"""

import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path

from hubnmt.checkpoint.metadata import Score, read_metadata, read_scores
from hubnmt.config import ModelConfig
from hubnmt.errors import HubError, ModelNotFoundError
from hubnmt.hub.listing import evict_lru, touch
from hubnmt.hub.pull import pull
from hubnmt.hub.reference import parse_reference
from hubnmt.translator import Translator

MAX_MODEL_MB = 500
"""Largest model that a page fetches, in megabytes (10^6 bytes)."""

MAX_CACHE_MB = 5_000
"""Most that models of ours may take on the disk of a page that strangers use."""


MAX_TOKENIZER_MIB = 8
"""Largest tokenizer that a page for strangers reads: about 100,000 pieces."""


@dataclasses.dataclass(frozen=True, slots=True)
class BoundedLoad:
    """Open a model; one of the Hub only if its size is stated and small enough."""

    load: Callable[[str], Translator]
    forgets: bool
    """Make room on the disk: on one's own machine that is one's own business."""

    def __call__(self, name: str) -> Translator:
        """Open a model by its reference.

        Raises:
            HubNMTError: if it is too large, or cannot be opened.
        """
        reference = None if _is_here(name) else parse_reference(name)
        if reference is None:
            return self.load(name)
        try:
            pulled = pull(reference, max_bytes=int(MAX_MODEL_MB * 10**6))
            touch(pulled.folder)
            if self.forgets:
                _check_tokenizers(pulled.folder, name)
            translator = self.load(str(pulled.folder))
            translator.revision = pulled.commit
            return translator
        finally:
            if self.forgets:
                evict_lru(MAX_CACHE_MB * 10**6)


def _check_tokenizers(folder: Path, name: str) -> None:
    """Refuse tokenizers that would take much memory to read.

    Raises:
        HubError: naming the file and the limit.
    """
    for path in folder.glob("tokenizer*.json"):
        if path.stat().st_size > MAX_TOKENIZER_MIB * 2**20:
            raise HubError(
                f"{name}: {path.name} is larger than the {MAX_TOKENIZER_MIB} MiB that this page "
                "takes; open it on a page of your own"
            )


def _is_here(name: str) -> bool:
    """Tell whether there is such a file or folder on this machine."""
    try:
        return Path(name).exists()
    except OSError:  # too long a name for the file system
        return False


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


MAX_OPEN_MODELS = 2
"""Models kept in memory: enough to go back and forth between two."""


MAX_WAIT_S = 1.0
"""How long a request that would run a model waits for others to be fetched: as long as one takes to
open that is on the disk already."""


class ModelRegistry:
    """The models of one page.

    Bundled models and the one the page was started with are always allowed. Folders of this machine
    are another person's business unless the page serves that person alone; see `allow_local`.
    """

    def __init__(
        self,
        load: Callable[[str], Translator],
        bundled: Mapping[str, Path],
        *,
        opening: str = "",
        allow_local: bool = False,
        allow_hub: bool = False,
        max_open: int = MAX_OPEN_MODELS,
    ) -> None:
        """Name what may be opened; load nothing yet.

        Args:
            load: reference -> translator.
            bundled: name -> folder of the models that came with the package.
            opening: the model the page opens with; empty takes the first bundled one.
            allow_local: open any folder of this machine that a visitor names.
            allow_hub: open Hub repositories that a visitor names.
            max_open: translators kept in memory.

        Raises:
            ModelNotFoundError: if there is nothing to open with.
        """
        if not opening and not bundled:
            raise ModelNotFoundError("no bundled model here: name one with --model MODEL")
        self.allow_local = allow_local
        self.allow_hub = allow_hub
        self.opening = opening or next(iter(bundled))
        self._load = load
        self._bundled = dict(bundled)
        self._max_open = max_open
        self._open: OrderedDict[str, Translator] = OrderedDict()
        self._lock = threading.Lock()
        self._loading: dict[str, threading.Lock] = {}
        self._fetching = threading.Lock()

    @property
    def names(self) -> tuple[str, ...]:
        """The models to choose from, the opening one first."""
        others = (name for name in self._bundled if name != self.opening)
        return (self.opening, *others)

    def name(self, reference: str) -> str:
        """Tidy a reference up; an empty one is the model that the page opens with.

        Raises:
            ModelNotFoundError: if it is no text, as only a client can send.
        """
        if not isinstance(reference, str):
            raise ModelNotFoundError(f"the model must be a name, not {type(reference).__name__}")
        return reference.strip() or self.opening

    def get(self, reference: str) -> Translator:
        """Return a model's translator, loading it if need be; an empty reference opens the first.

        Whoever asks is about to run it and has a place in the line of those who do, so one at a
        time may wait for the Hub there: the others' sentences pass by.

        Raises:
            HubNMTError: if this page does not open it, it cannot be loaded, or it must be fetched
                and another is just being fetched.
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
                f"{reference} is not open yet, and a model is just being fetched for somebody; "
                "try again in a moment"
            )
        try:
            return self._load_once(reference)
        finally:
            self._fetching.release()

    def open(self, reference: str) -> Translator:
        """Return a model's translator as `get` does, however long that takes.

        Raises:
            HubNMTError: if this page does not open it, or it cannot be loaded.
        """
        reference = self.name(reference)
        self._check(reference)
        return self._find(reference) or self._load_once(reference)

    def _load_once(self, reference: str) -> Translator:
        """Load a model, or wait for whoever is loading it."""
        with self._lock:
            loading = self._loading.setdefault(reference, threading.Lock())
        with loading:  # who wants another model need not wait
            translator = self._find(reference)
            try:
                if translator is None:
                    translator = self._load(reference)
                    self._keep(reference, translator)
            finally:
                with self._lock:
                    self._loading.pop(reference, None)
        return translator

    def _find(self, reference: str) -> Translator | None:
        """Return a model that is open, and remember it as the one used last."""
        with self._lock:
            if reference in self._open:
                self._open.move_to_end(reference)
            return self._open.get(reference)

    def _keep(self, reference: str, translator: Translator) -> None:
        """Remember a model as the one used last; forget the one that was not used for longest."""
        with self._lock:
            self._open[reference] = translator
            while len(self._open) > self._max_open:
                self._open.popitem(last=False)

    def is_open(self, reference: str) -> bool:
        """Tell whether `get` would answer at once."""
        with self._lock:
            return self.name(reference) in self._open

    def folder(self, reference: str) -> Path | None:
        """Return where a model lies on this machine, if it does and may be looked at."""
        if reference in self._bundled:
            return self._bundled[reference]
        may_look = reference == self.opening or self.allow_local
        return Path(reference) if may_look and Path(reference).is_dir() else None

    def _check(self, reference: str) -> None:
        """Refuse what this page does not open, without telling what exists on this machine.

        Raises:
            ModelNotFoundError: naming what can be opened instead.
        """
        if reference in self.names:
            return
        is_hub = _is_on_hub(reference)
        if self.allow_hub if is_hub else self.allow_local:
            return
        kinds = ["its own models"]
        kinds += ["folders of this machine"] if self.allow_local else []
        kinds += ["Hub models (user/name)"] if self.allow_hub else []
        raise ModelNotFoundError(
            f"{reference[:120]!r} is not on this page, which opens {' and '.join(kinds)}; "
            f"its own are: {', '.join(self.names)}"
        )


def _is_on_hub(reference: str) -> bool:
    """Tell whether a reference can only mean a model on the Hub."""
    try:
        return parse_reference(reference) is not None and not Path(reference).exists()
    except HubError:  # no revision that could be
        return False

"""Models of the Hub, opened within bounds: none too large, and not ever more of them on the disk.

Takes a way to open a reference, gives one that looks at the size first and makes room afterwards,
also where opening fails: what was fetched for it takes room all the same.
Must not know Gradio.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path

from hubnmt.errors import HubError
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

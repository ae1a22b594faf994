"""Models of the Hub, opened within bounds: none too large, and not ever more of them on the disk.

Takes a way to open a reference, gives one that looks at the size first and makes room afterwards.
Must not know Gradio.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path

from hubnmt.errors import HubError, HubUnreachableError
from hubnmt.hub import HubReference, download_size, find_cached, forget_oldest, parse_reference
from hubnmt.translator import Translator

MAX_MODEL_MB = 500
"""Largest model that a page fetches, in megabytes (10^6 bytes)."""

MAX_CACHE_MB = 5_000
"""Most that models of ours may take on the disk of a page that strangers use."""


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
        reference = None if Path(name).exists() else parse_reference(name)
        if reference is not None and find_cached(reference) is None:
            _check_size(reference)
        translator = self.load(name)
        if reference is not None and self.forgets:
            forget_oldest(MAX_CACHE_MB * 10**6)
        return translator


def _check_size(reference: HubReference) -> None:
    """Refuse what is too large; a Hub that cannot be reached is said by whoever fetches.

    Raises:
        HubError: with the size and the limit.
    """
    try:
        size = download_size(reference)
    except HubUnreachableError:
        return
    if size > MAX_MODEL_MB * 10**6:
        raise HubError(
            f"{reference} has {size / 1e6:,.0f} MB, this page fetches models of up to "
            f"{MAX_MODEL_MB} MB; pull it by hand: hubnmt pull {reference}"
        )

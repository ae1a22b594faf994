"""A model's name to its folder: bundled, on this machine, or on the Hub.

Takes what a user calls a model, gives the folder, and the commit if it came from the Hub. Must not
know what is in a folder.
"""

import contextlib
import os
from pathlib import Path
from typing import Any

from hubnmt.checkpoint.folder import bundled_models
from hubnmt.errors import ConfigError, HubUnreachableError, ModelNotFoundError
from hubnmt.hub.pull import pull
from hubnmt.hub.reference import parse_reference


def find_model(model: str | os.PathLike[str]) -> Path:
    """Resolve a bundled name, a local folder or a Hub reference to a folder.

    Raises:
        ModelNotFoundError: naming what there is.
        HubError: if the Hub has no such model, or cannot be reached.
    """
    return locate_model(model)[0]


def locate_model(
    model: str | os.PathLike[str], *, revision: str | None = None, **hub: Any
) -> tuple[Path, str | None]:
    """Find a model's folder, and its commit if it is from the Hub; `hub`: options of `pull`."""
    name = os.fspath(model)
    folder = _find_here(name)
    if folder is not None:
        if revision is not None:
            raise ConfigError(f"{name!r} is on this machine and has no revisions; leave it out")
        return folder, None
    reference = parse_reference(name, revision=revision)
    if reference is not None:
        try:
            pulled = pull(reference, **hub)
        except HubUnreachableError as error:
            raise HubUnreachableError(f"no folder {name!r} here, and {error}") from None
        return pulled.folder, pulled.commit
    known = ", ".join(bundled_models()) or "none"
    raise ModelNotFoundError(
        f"no model {name!r}: not a bundled model (there are: {known}), not a local folder, and not "
        "user/name on the Hub"
    )


def _find_here(name: str) -> Path | None:
    bundled = bundled_models()
    if name in bundled:
        return bundled[name]
    with contextlib.suppress(RuntimeError, OSError, ValueError):  # no home, too long, a zero byte
        folder = Path(name).expanduser()
        if folder.is_dir():
            return folder
    return None

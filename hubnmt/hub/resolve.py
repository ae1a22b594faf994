"""Resolve the name of a bundled, local or Hub model to its folder."""

import contextlib
import difflib
import os
from pathlib import Path
from typing import Any

from hubnmt.checkpoint.description import bundled_models
from hubnmt.errors import ConfigError, HubUnreachableError, ModelNotFoundError
from hubnmt.hub.pull import pull
from hubnmt.hub.reference import parse_reference


def find_model(model: str | os.PathLike[str]) -> Path:
    """Resolve a bundled name, a local folder or a Hub reference to a folder.

    Raises:
        ModelNotFoundError: listing the bundled models.
        HubError: if the Hub has no such model, or cannot be reached.
    """
    return locate_model(model)[0]


def locate_model(
    model: str | os.PathLike[str], *, revision: str | None = None, **hub: Any
) -> tuple[Path, str | None]:
    """Return a model's folder, and its commit if it is from the Hub; `hub`: options of `pull`."""
    name = os.fspath(model)
    folder = _find_local(name)
    if folder is not None:
        if revision is not None:
            raise ConfigError(
                f"{name!r} is a local model, which has no revisions; remove the revision"
            )
        return folder, None
    reference = parse_reference(name, revision=revision)
    if reference is not None:
        try:
            pulled = pull(reference, **hub)
        except HubUnreachableError as error:
            raise HubUnreachableError(f"there is no local folder {name!r}, and {error}") from None
        return pulled.folder, pulled.commit
    known = ", ".join(bundled_models()) or "none"
    near = difflib.get_close_matches(name[:100], bundled_models(), n=1)
    suggestion = f" (did you mean {near[0]!r}?)" if near else ""
    raise ModelNotFoundError(
        f"no model {name!r}{suggestion}: not a bundled model (available: {known}), not a local "
        "folder, and not user/name on the Hub"
    )


def _find_local(name: str) -> Path | None:
    bundled = bundled_models()
    if name in bundled:
        return bundled[name]
    with contextlib.suppress(
        RuntimeError, OSError, ValueError
    ):  # no home folder, path too long, null byte
        folder = Path(name).expanduser()
        if folder.is_dir():
            return folder
    return None

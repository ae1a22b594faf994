"""The one hook to trackers: Trackio or Weights & Biases, if the recipe asks for one.

Takes the numbers of the run's log, gives them to the tracker. Must not know anything else. Both
share the three calls used here (`init`, `log`, `finish`), and both are imported only when asked
for, as importing them starts much that training does not need.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from hubnmt.errors import ConfigError
from training.config.run import LogConfig


class Tracker:
    """An open run at a tracker, or nothing at all where none is asked for."""

    def __init__(self, settings: LogConfig, folder: Path, recipe: Mapping[str, Any]) -> None:
        """Open the run named after the folder, or go on with it.

        Raises:
            ConfigError: if the library is not installed, or does not let us in.
        """
        self._library: Any = None
        if settings.hook is None:
            return
        self._library = import_tracker(settings.hook)
        options = {"id": folder.name} if settings.hook == "wandb" else {}
        try:
            self._library.init(
                project=settings.project,
                name=folder.name,
                config=dict(recipe),
                resume="allow",
                **options,
            )
        except Exception as error:  # login, network, quota: each has errors of its own
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise ConfigError(
                f"log.hook = {settings.hook!r} does not start ({first}); log in there, or train "
                "without: --set log.hook=null"
            ) from error

    def add(self, step: int, kind: str, values: Mapping[str, Any]) -> None:
        """Send the numbers of one record; texts stay here."""
        if self._library is not None:
            numbers = {k: v for k, v in values.items() if isinstance(v, (int, float))}
            self._library.log({f"{kind}/{k}": v for k, v in numbers.items()}, step=step)

    def close(self) -> None:
        """Finish sending."""
        if self._library is not None:
            self._library.finish()


def import_tracker(hook: str) -> Any:
    """Import the library of a hook.

    Raises:
        ConfigError: if it is not installed.
    """
    try:
        return import_module("trackio") if hook == "trackio" else import_module("wandb")
    except ImportError as error:
        raise ConfigError(
            f"log.hook = {hook!r}, but {error.name or hook} is not installed: pip install {hook}, "
            "or --set log.hook=null"
        ) from None

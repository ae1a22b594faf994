"""hubnmt: train, inspect and share Transformer translation models.

Public names: `Translator` (load, translate, save), `Translation` (its result) and `HubNMTError`
(base class of the errors). Import everything else from its own module.
"""

import pkgutil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hubnmt.errors import HubNMTError
    from hubnmt.translator import Translator
    from hubnmt.types import Translation

__all__ = ["HubNMTError", "Translation", "Translator", "__version__"]
__version__ = "0.1.0"

_MODULES = {
    "HubNMTError": "hubnmt.errors",
    "Translation": "hubnmt.types",
    "Translator": "hubnmt.translator",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first access (PEP 562), because importing PyTorch takes seconds."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = pkgutil.resolve_name(f"{_MODULES[name]}:{name}")
    return value


def __dir__() -> list[str]:
    """List the public names only."""
    return sorted(__all__)

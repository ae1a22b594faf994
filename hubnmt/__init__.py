"""hubnmt: translation models to train from scratch, understand, and share.

Public: `Translator` (load, translate, save), `Translation` (what it returns), and `HubNMTError`,
the base of the errors a user can meet. Everything else is reached through its own module.
"""

import pkgutil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hubnmt.errors import HubNMTError
    from hubnmt.translator import Translator
    from hubnmt.types import Translation

__all__ = ["HubNMTError", "Translation", "Translator", "__version__"]
__version__ = "0.1.0"

_PLACES = {
    "HubNMTError": "hubnmt.errors",
    "Translation": "hubnmt.types",
    "Translator": "hubnmt.translator",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for first: PyTorch alone takes seconds (PEP 562)."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = pkgutil.resolve_name(f"{_PLACES[name]}:{name}")
    return value


def __dir__() -> list[str]:
    """List what is public, imported or not."""
    return sorted({*globals(), *__all__})

"""hubnmt: translation models to train from scratch, understand, and share.

The doors: `Translator` (load, translate, save), `Translation` (what it returns), and the errors a
user can meet. Everything else is reached through its own module.
"""

from hubnmt.errors import HubNMTError
from hubnmt.translation import Translation
from hubnmt.translator import Translator

__all__ = ["HubNMTError", "Translation", "Translator", "__version__"]
__version__ = "0.1.0"

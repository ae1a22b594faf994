import dataclasses
from collections.abc import Callable

import pytest

from hubnmt.errors import InputError
from hubnmt.ui.services.compare import compare
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.translate import Handlers

TEXT = "ein hund rennt"


def test_models_of_different_pairs_are_not_compared(make_registry: Callable[..., ModelRegistry]):
    registry = make_registry()
    other = registry.get("second")
    other.config = dataclasses.replace(other.config, src_lang="ml")
    with pytest.raises(InputError, match="A translates German to English and B Malayalam to"):
        compare(Handlers(registry), TEXT, ["first", "second"], [{}, {}])

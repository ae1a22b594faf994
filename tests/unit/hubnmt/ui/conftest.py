"""A page's registry, with two names for the small bundled model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hubnmt.ui.services.registry import ModelRegistry
from tests.page import load


@pytest.fixture
def make_registry(tmp_path: Path) -> Callable[..., ModelRegistry]:
    """Make a registry of two bundled models, `first` and `second`."""
    folders = {name: tmp_path / name for name in ("first", "second")}
    for folder in folders.values():
        folder.mkdir()

    def make(**options: Any) -> ModelRegistry:
        return ModelRegistry(load, options.pop("bundled", folders), **options)

    return make


@pytest.fixture
def registry(make_registry: Callable[..., ModelRegistry]) -> ModelRegistry:
    return make_registry()

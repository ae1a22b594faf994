"""The page with the small bundled model, served for the tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hubnmt.ui.services.registry import ModelRegistry
from tests.page import load, serving


@pytest.fixture(scope="package")
def url(bundled_model: Path) -> Iterator[str]:
    with serving(ModelRegistry(load, {"first": bundled_model})) as url:
        yield url

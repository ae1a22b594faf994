"""The examples in the docstrings of the public API run."""

import doctest
import importlib

import pytest

import hubnmt
from hubnmt import Translator


@pytest.mark.usefixtures("bundled_model")
def test_examples_run() -> None:
    names = {"translator": Translator.from_pretrained("de-en-multi30k")}
    for name in ("translator", "batch", "types", "config", "errors"):
        module = importlib.import_module(f"hubnmt.{name}")
        failed, tried = doctest.testmod(module, extraglobs=names)
        assert failed == 0
        assert tried > 0


def test_every_public_method_has_an_example() -> None:
    public = [getattr(hubnmt, name) for name in hubnmt.__all__ if not name.startswith("_")]
    methods = [getattr(Translator, name) for name in vars(Translator) if not name.startswith("_")]
    described = [each for each in public + methods if callable(each)]
    assert [each.__qualname__ for each in described if ">>>" not in (each.__doc__ or "")] == []

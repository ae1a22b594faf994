"""The lent GPU: asked for where there is one, forgotten elsewhere."""

import types
from collections.abc import Callable

import pytest

from hubnmt.ui.gradio import zero_gpu


def double(number: int) -> int:
    return 2 * number


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Callable[..., object]]:
    """A Space's own module; the functions that asked it for a GPU."""
    functions: list[Callable[..., object]] = []

    def lend(function: Callable[..., object]) -> Callable[..., object]:
        functions.append(function)
        return lambda *values: ("on gpu", function(*values))

    monkeypatch.setattr(zero_gpu, "spaces", types.SimpleNamespace(GPU=lend))
    return functions


def test_elsewhere_it_is_the_same_function():
    assert zero_gpu.on_gpu(double) is double
    assert zero_gpu.device() == "cpu"


def test_on_such_a_space_the_function_asks_first(
    asked: list[Callable[..., object]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    assert zero_gpu.on_gpu(double)(3) == ("on gpu", 6)
    assert asked == [double]
    assert zero_gpu.device() == "cuda"

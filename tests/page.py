"""A page to test, with the small bundled model, served on a port of its own."""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from hubnmt.translator import Translator
from hubnmt.ui.gradio.page import build_demo, launch_options
from hubnmt.ui.services.registry import ModelRegistry
from tests.conftest import BUNDLED
from tests.environments import free_port


@functools.cache
def bundled_translator() -> Translator:
    return Translator.from_pretrained(BUNDLED)


def translated(text: str) -> str:
    return bundled_translator().translate(text).text


def load(_: str) -> Translator:
    """Load the bundled model under any name."""
    return bundled_translator()


@contextlib.contextmanager
def serving(registry: ModelRegistry, *, has_mcp: bool = False, **more: Any) -> Iterator[str]:
    """Serve the page, with more options of `launch` if need be; gives its address."""
    # Left to choose, Gradio tries ports in order and leaks a socket for each that is taken.
    demo = build_demo(registry)
    options = launch_options(registry, has_mcp=has_mcp) | {"server_port": free_port()} | more
    _, url, _ = demo.launch(prevent_thread_lock=True, quiet=True, **options)
    try:
        yield url
    finally:
        demo.close()

"""Serve the page: `hubnmt app`, or `python app.py` in a checkout."""

import dataclasses
import functools
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hubnmt import Translator
from hubnmt.checkpoint.files import bundled_models
from hubnmt.errors import ConfigError
from hubnmt.ui.gradio.page import build_demo, launch_options
from hubnmt.ui.services.registry import ModelRegistry, load_bounded


@dataclasses.dataclass(frozen=True, kw_only=True)
class AppOptions:
    """Options of `hubnmt app`; where one is empty, the environment decides."""

    model: str = ""
    """The model that the page opens with."""
    host: str | None = None
    port: int | None = None
    share: bool = False
    mcp: bool = False
    """Offer the endpoints as MCP tools."""


LOOPBACK = ("", "127.0.0.1", "localhost", "::1")


def is_private(options: AppOptions, environment: Mapping[str, str]) -> bool:
    """Return whether the page can be reached from this machine only."""
    host = options.host or environment.get("GRADIO_SERVER_NAME", "")
    is_shared = options.share or environment.get("GRADIO_SHARE", "").lower() == "true"
    return host in LOOPBACK and not is_shared and "SPACE_ID" not in environment


def may_ask_hub(options: AppOptions, environment: Mapping[str, str]) -> bool:
    """Return whether visitors of the page may load any model from the Hub.

    Off by default on a public page (enable with `HUBNMT_HUB=1`): visitors could trigger arbitrary
    downloads and, through the owner's token, read the owner's private models.
    """
    default = "1" if is_private(options, environment) else "0"
    return (environment.get("HUBNMT_HUB") or default) == "1"


def make_registry(options: AppOptions, environment: Mapping[str, str]) -> ModelRegistry:
    """Create the registry of the models that the page may load."""
    is_own = is_private(options, environment)
    load = functools.partial(Translator.from_pretrained, device="cpu")
    return ModelRegistry(
        functools.partial(load_bounded, load=load, is_public=not is_own),
        bundled_models(),
        opening=options.model or environment.get("HUBNMT_MODEL", ""),
        allow_local=is_own,
        allow_hub=may_ask_hub(options, environment),
    )


def check_upload_folder(environment: Mapping[str, str]) -> None:
    """Check that the upload folder is writable: /tmp/gradio may belong to another user."""
    folder = environment.get("GRADIO_TEMP_DIR") or Path(tempfile.gettempdir(), "gradio")
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(
            f"the upload folder {folder} cannot be written ({error.strerror}); set "
            "GRADIO_TEMP_DIR to a folder of your own"
        ) from None


def run_app(options: AppOptions) -> None:
    """Serve the page until interrupted.

    Raises:
        HubNMTError: if the model, the upload folder, the port or a library cannot be used.
    """
    check_upload_folder(os.environ)
    registry = make_registry(options, os.environ)
    demo = build_demo(registry)
    has_mcp = options.mcp or os.environ.get("GRADIO_MCP_SERVER", "").lower() == "true"
    try:
        demo.launch(
            server_name=options.host,
            server_port=options.port,
            share=options.share or None,
            **launch_options(registry, has_mcp=has_mcp),
        )
    # Gradio imports its optional extra only on use; OSError: the port is in use or not permitted.
    except (ImportError, OSError) as error:
        raise ConfigError(str(error)) from None

"""Serve the translator as a web page.

Takes command-line options and the environment (`HUBNMT_MODEL`, `HUBNMT_HUB`, Gradio's own), gives
a running server. Must not know how translation works.
"""

import argparse
import functools
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from hubnmt import Translator
from hubnmt.checkpoint.folder import bundled_models
from hubnmt.errors import ConfigError, HubNMTError
from hubnmt.ui.gradio.page import build_demo, launch_options
from hubnmt.ui.gradio.zero_gpu import device
from hubnmt.ui.services.registry import BoundedLoad, ModelRegistry
from hubnmt.ui.services.runtime import share_arenas
from hubnmt.ui.services.translate import Handlers

LOOPBACK = ("", "127.0.0.1", "localhost", "::1")


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="app.py", description="Translate in the browser.")
    parser.add_argument("--model", default="", help="bundled name, folder, or user/name")
    parser.add_argument("--host", help="address to listen on; 0.0.0.0 lets others in")
    parser.add_argument("--port", type=int, help="port; the first free one from 7860 by default")
    parser.add_argument("--share", action="store_true", help="make a public link through Gradio")
    parser.add_argument(
        "--mcp", action="store_true", help="offer the endpoints as tools to agents (extra: mcp)"
    )
    return parser.parse_args(arguments)


def is_private(options: argparse.Namespace, environment: Mapping[str, str]) -> bool:
    """Tell whether only the person who started the page can reach it."""
    host = options.host or environment.get("GRADIO_SERVER_NAME", "")
    is_shared = options.share or environment.get("GRADIO_SHARE", "").lower() == "true"
    return host in LOOPBACK and not is_shared and "SPACE_ID" not in environment


def may_ask_hub(options: argparse.Namespace, environment: Mapping[str, str]) -> bool:
    """Tell whether whoever reaches the page may name any model on the Hub.

    Strangers may not, unless the owner says so (`HUBNMT_HUB=1`, and in no other way): the page
    would fetch what they like, and with the owner's token also what only the owner may read.
    """
    default = "1" if is_private(options, environment) else "0"
    return (environment.get("HUBNMT_HUB") or default) == "1"


def make_registry(options: argparse.Namespace, environment: Mapping[str, str]) -> ModelRegistry:
    """Decide which models the page opens.

    Raises:
        ModelNotFoundError: if there is none to open with.
    """
    is_own = is_private(options, environment)
    load = functools.partial(Translator.from_pretrained, device=device())
    return ModelRegistry(
        BoundedLoad(load, forgets=not is_own),
        bundled_models(),
        opening=options.model or environment.get("HUBNMT_MODEL", ""),
        allow_local=is_own,
        allow_hub=may_ask_hub(options, environment),
    )


def check_upload_folder(environment: Mapping[str, str]) -> None:
    """Refuse to serve where an upload cannot be written: /tmp/gradio may be another user's.

    Raises:
        ConfigError: naming the folder and the remedy.
    """
    folder = environment.get("GRADIO_TEMP_DIR") or Path(tempfile.gettempdir(), "gradio")
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be written ({error.strerror}), and uploads go there; set "
            "GRADIO_TEMP_DIR to a folder of your own"
        ) from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until interrupted; return the exit status."""
    options = parse_arguments(arguments)
    share_arenas()
    try:
        check_upload_folder(os.environ)
        demo = build_demo(Handlers(make_registry(options, os.environ)))
        demo.launch(
            server_name=options.host,
            server_port=options.port,
            share=options.share or None,
            mcp_server=options.mcp or None,  # None: as GRADIO_MCP_SERVER says
            **launch_options(),
        )
    except ImportError as error:  # Gradio looks for its extra when it is asked to use it
        print(f"app.py: {error}", file=sys.stderr)  # noqa: T201
        return 2
    except (HubNMTError, OSError) as error:  # OSError: the port is taken, or not ours
        print(f"app.py: {error}", file=sys.stderr)  # noqa: T201
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`hubnmt app`: open the page."""

from typing import Annotated

from typer import Option

from hubnmt.errors import ConfigError


def open_page(
    model: Annotated[str, Option(metavar="MODEL", help="model that it opens with")] = "",
    host: Annotated[
        str | None,
        Option(help="address to listen on; 0.0.0.0 accepts connections from other machines"),
    ] = None,
    port: Annotated[int | None, Option(help="port (default: the first free one from 7860)")] = None,
    share: Annotated[bool, Option("--share", help="create a public link through Gradio")] = False,
    mcp: Annotated[
        bool, Option("--mcp", help="expose the endpoints as MCP tools (needs hubnmt[mcp])")
    ] = False,
) -> None:
    """Open the page in the browser (hubnmt[app])."""
    try:
        from hubnmt.ui.gradio.launch import AppOptions, run_app
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{error.name} is not installed, which the page needs: pip install 'hubnmt[app]'"
        ) from None
    run_app(AppOptions(model=model, host=host, port=port, share=share, mcp=mcp))

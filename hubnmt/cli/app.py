"""All commands, a typer application; `hubnmt app` opens the page."""

from typing import Annotated

import typer
from typer import Option

import hubnmt
from hubnmt.cli.evaluate import evaluate, score
from hubnmt.cli.hub import list_models, pull, push, space
from hubnmt.cli.models import export, inspect
from hubnmt.cli.options import expand
from hubnmt.cli.translate import translate
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


app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="Translate with hubnmt models, evaluate and inspect them.",
)
app.command()(expand(translate))
app.command()(expand(evaluate))
app.command()(expand(score))
app.command("app")(open_page)
app.command()(inspect)
app.command()(export)
app.command("list")(list_models)
app.command()(pull)
app.command()(push)
app.command()(space)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        print(f"hubnmt {hubnmt.__version__}")
        raise typer.Exit


@app.callback()
def _hubnmt(
    version: Annotated[
        bool,
        Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None: ...

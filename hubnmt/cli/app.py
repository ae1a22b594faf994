"""The list of all commands, a typer application."""

from typing import Annotated

import typer

import hubnmt
from hubnmt.cli.evaluate import evaluate, score
from hubnmt.cli.hub import list_models, pull, push, space
from hubnmt.cli.models import export, inspect
from hubnmt.cli.options import expand
from hubnmt.cli.page import open_page
from hubnmt.cli.translate import translate

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
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None: ...

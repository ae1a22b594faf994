"""The command line, a typer application: `hubnmt COMMAND` or `python -m hubnmt COMMAND`.

Results go to standard output, everything else to standard error. Exit status: 0 success, 2 invalid
request (reported in one line), 130 interrupted, 1 any other error.
"""

import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from typer import Option

import hubnmt
from hubnmt.cli.evaluate import evaluate, score
from hubnmt.cli.hub import list_models, pull, push, space
from hubnmt.cli.models import export, inspect
from hubnmt.cli.options import expand
from hubnmt.cli.translate import translate
from hubnmt.errors import ConfigError, HubNMTError

INTERRUPTED = {
    "list": "nothing was changed",
    "pull": "no incomplete file is used; pull again to continue",
    "push": "the commit was made completely or not at all; push again to make sure",
    "space": "the commit was made completely or not at all; run it again to make sure",
}
"""How things stand after Ctrl-C."""


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        the exit status.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    _prepare_streams()
    try:
        if sys.stdout is None:
            raise ConfigError("standard output is closed; send it to a file, or to /dev/null")
        command = typer.main.get_command(app)
        with command.make_context("hubnmt", arguments.copy()) as context:
            command.invoke(context)
        sys.stdout.flush()
    except typer.Exit as end:
        return end.exit_code
    except typer.TyperException as error:
        _report(f"error: {_describe_usage(error)}")
        return 2
    except HubNMTError as error:
        _report(f"error: {error}", *_notes(error))
        return 2
    except KeyboardInterrupt as error:
        _report("interrupted", *_notes(error) or [INTERRUPTED.get("".join(arguments[:1]), "")])
        return 130
    except BrokenPipeError:  # the reading process closed the pipe
        _discard_output()
        return 0
    except OSError as error:
        if error.errno is None:
            raise
        where = f"{error.filename or 'the output'}: {error.strerror}"
        remedy = "free disk space or choose another place, then try again"
        _report(f"error: {where}; {remedy}", *_notes(error))
        try:
            sys.stdout.flush()
        except OSError:
            _discard_output()
        return 2
    return 0


def _describe_usage(error: typer.TyperException) -> str:
    """Return what is wrong with the arguments, the bundled models if none was named, and help."""
    from hubnmt.checkpoint.files import bundled_models

    message, context = error.format_message().rstrip("."), getattr(error, "ctx", None)
    if message.startswith("Missing") and getattr(getattr(error, "param", 0), "name", 0) == "model":
        message += f" (bundled models: {', '.join(bundled_models())})"
    return f"{message}; see {context.command_path if context else 'hubnmt'} --help"


def _prepare_streams() -> None:
    """Use UTF-8 independently of the locale, and discard standard error if it is closed.

    Where `sys.stderr` is None, `print(..., file=sys.stderr)` would write to standard output.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123  # stays open until exit
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _report(*messages: str) -> None:
    print(f"hubnmt: {_one_line('; '.join(filter(None, messages)))}", file=sys.stderr)


def _notes(error: BaseException) -> list[str]:
    return getattr(error, "__notes__", [])


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


if __name__ == "__main__":
    sys.exit(main())

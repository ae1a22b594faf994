"""Entry point of the command line: `hubnmt COMMAND` or `python -m hubnmt COMMAND`.

Results go to standard output, everything else to standard error. Exit status: 0 success, 2 invalid
request (reported in one line), 130 interrupted, 1 any other error.
"""

import io
import os
import sys
from collections.abc import Sequence

import typer

from hubnmt.cli.app import app
from hubnmt.errors import ConfigError, HubNMTError

INTERRUPTED = {
    "list": "nothing was changed",
    "pull": "no incomplete file is used; pull again to continue",
    "push": "the commit was made completely or not at all; push again to make sure",
    "space": "the commit was made completely or not at all; run it again to make sure",
}
"""How things stand after Ctrl-C."""


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
    from hubnmt.checkpoint.description import bundled_models

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

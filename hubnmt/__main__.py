"""The commands: `hubnmt COMMAND`, or `python -m hubnmt COMMAND`; `hubnmt --help` lists them.

Takes arguments, files and standard input; gives results on standard output, everything else on
standard error. Must not know Gradio or training. Exit status: 0 done, 2 the request was wrong (one
line says what and how to mend it), 1 anything else.
"""

import argparse
import io
import os
import pkgutil
import sys
from collections.abc import Sequence

import hubnmt
from hubnmt.cli.parser import Parser
from hubnmt.errors import ConfigError, HubNMTError
from hubnmt.text.textfile import NO_ROOM

COMMANDS = {
    "translate": (
        "hubnmt.cli.translate:add_translate",
        "translate arguments, a file, or stdin",
    ),
    "evaluate": ("hubnmt.cli.evaluate:add_evaluate", "BLEU and chrF of a model or of a file"),
    "score": ("hubnmt.cli.evaluate:add_score", "log-probability of given translations"),
    "export": ("hubnmt.cli.export:add_export", "the same weights for another runtime"),
    "inspect": ("hubnmt.cli.inspect:add_inspect", "what a model is, and whether it works"),
    "list": ("hubnmt.cli.hub:add_list", "models: bundled, in the cache, on the Hub"),
    "pull": ("hubnmt.cli.hub:add_pull", "fetch a model from the Hub"),
    "push": ("hubnmt.cli.hub:add_push", "publish a model folder on the Hub"),
    "space": ("hubnmt.cli.hub:add_space", "a Space on the Hub that serves a model"),
}
"""What describes each command, and what the list of commands says of it."""


def build_parser(only: str | None = None) -> Parser:
    """Describe all commands; or one in full, because describing it imports what it works with."""
    parser = Parser(prog="hubnmt", description="Translate, measure and look into hubnmt models.")
    parser.add_argument("--version", action="version", version=f"hubnmt {hubnmt.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    for name, (where, said) in COMMANDS.items():
        if only in (None, name):
            pkgutil.resolve_name(where)(commands)
        else:
            commands.add_parser(name, help=said)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        the exit status.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    options = argparse.Namespace()
    _prepare_streams()
    try:
        if sys.stdout is None:
            raise ConfigError("standard output is closed; send it to a file, or to /dev/null")
        build_parser("".join(arguments[:1])).parse_args(arguments, options)
        options.run(options)
        sys.stdout.flush()
    except HubNMTError as error:
        _tell(f"error: {error}", *_notes(error))
        return 2
    except KeyboardInterrupt as error:
        _tell("interrupted", *_notes(error) or [getattr(options, "interrupted", "")])
        return 130
    except BrokenPipeError:  # the reader of our output has seen enough
        _forget_output()
        return 0
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        where = error.filename or "the output"
        _tell(f"error: {where}: cannot be written ({error.strerror}); make room and try again")
        _forget_output()
        return 2
    return 0


def _prepare_streams() -> None:
    """Write UTF-8 whatever the locale, and standard error nowhere if it is closed.

    `print(..., file=None)` would write to standard output.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123  # to the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _tell(*sayings: str) -> None:
    """Say on standard error how it ended, in one line."""
    print(f"hubnmt: {_one_line('; '.join(filter(None, sayings)))}", file=sys.stderr)


def _notes(error: BaseException) -> list[str]:
    """What was noted on an error on its way up."""
    return getattr(error, "__notes__", [])


def _forget_output() -> None:
    """Let what is still to be written go nowhere, or the end of the process trips over it again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _one_line(text: str) -> str:
    """Keep what steers a terminal out of it: a message may quote a stranger's file or the Hub."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


if __name__ == "__main__":
    sys.exit(main())

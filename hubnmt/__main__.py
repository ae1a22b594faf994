"""The commands: `hubnmt COMMAND`, or `python -m hubnmt COMMAND`; `hubnmt --help` lists them.

Takes arguments, files and standard input; gives results on standard output, everything else on
standard error. Must not know Gradio or training. Exit status: 0 done, 2 the request was wrong (one
line says what and how to mend it), 1 anything else.
"""

import argparse
import os
import sys
from collections.abc import Sequence

import hubnmt
from hubnmt.commands.export import add_export
from hubnmt.commands.hub import add_list, add_pull, add_push, add_space
from hubnmt.commands.inspect import add_inspect
from hubnmt.commands.measure import add_evaluate, add_score
from hubnmt.commands.options import Parser
from hubnmt.commands.translate import add_translate
from hubnmt.errors import HubNMTError
from hubnmt.textfile import NO_ROOM

COMMANDS = (
    add_translate,
    add_evaluate,
    add_score,
    add_export,
    add_inspect,
    add_list,
    add_pull,
    add_push,
    add_space,
)


def build_parser() -> Parser:
    """Describe all commands."""
    parser = Parser(prog="hubnmt", description="Translate, measure and look into hubnmt models.")
    parser.add_argument("--version", action="version", version=f"hubnmt {hubnmt.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    for add_command in COMMANDS:
        add_command(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        the exit status.
    """
    options = argparse.Namespace()
    try:
        build_parser().parse_args(arguments, options)
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

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
        print(f"hubnmt: error: {_one_line(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        hint = getattr(options, "interrupted", "what was written is kept (--continue)")
        print(f"hubnmt: interrupted; {hint}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return 0


def _one_line(text: str) -> str:
    """Keep what steers a terminal out of it: a message may quote a stranger's file or the Hub."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


if __name__ == "__main__":
    sys.exit(main())

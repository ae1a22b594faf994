"""Arguments of all commands; imports nothing heavy, so that `--help` is fast."""

import argparse
import dataclasses
import types
import typing
from collections.abc import Callable
from pathlib import Path

import hubnmt
from hubnmt.cli.parser import Parser
from hubnmt.config import DEFAULT_BATCH_TOKENS, DTYPE_NAMES, ENGINES, DecodingConfig

LIST_LIMIT = 100

TEXT_FLAGS = {
    "guard": "decode degenerate output (repetition, copy, far too short) again (default: yes)",
    "split": "translate each sentence of a line separately (default: yes)",
}

DECODING_HELP = {
    "beam_size": "hypotheses kept per sentence; 1 is greedy search",
    "length_penalty": "above 1 favours longer translations, below 1 shorter ones",
    "n_best": "translations per text (see --json): at most the beam size, or the number of samples",
    "sample": "sample tokens instead of beam search",
    "temperature": "sampling temperature: below 1 sharpens the distribution, above 1 flattens it",
    "top_k": "sample from the k most probable tokens; 0: all",
    "top_p": "sample from the smallest set of tokens with this total probability; 1: all",
    "seed": "random seed of sampling",
    "no_repeat_ngram_size": "forbid repeated n-grams of this many tokens; 0: allow all",
    "repetition_penalty": "above 1 makes tokens that were already generated less likely",
    "max_new_tokens": "most tokens to generate per sentence, not counting the prefix "
    "(default: a generous limit based on the source length)",
}


def add_translate(command: Parser) -> None:
    """Add the arguments of `translate`."""
    command.add_argument("text", nargs="*", metavar="TEXT")
    command.add_argument("--input", type=Path, metavar="FILE", help="input file, one text per line")
    command.add_argument(
        "--output", type=Path, metavar="FILE", help="output file, one translation per line"
    )
    command.add_argument("--overwrite", action="store_true", help="replace an existing output file")
    command.add_argument(
        "--continue",
        dest="carry_on",
        action="store_true",
        help="continue after the lines of the output file",
    )
    command.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="processes, each with its own copy of the model (default: one per core, at most 8, "
        "for a file of 1,000 lines or more on a CPU)",
    )
    command.add_argument("--json", action="store_true", help="print one JSON object per line")
    add_model_options(command)
    add_decoding_options(command)


def add_evaluate(command: Parser) -> None:
    """Add the arguments of `evaluate`."""
    command.add_argument(
        "--src", type=Path, metavar="FILE", help="source sentences, one per line (with --model)"
    )
    command.add_argument(
        "--ref",
        type=Path,
        metavar="FILE",
        required=True,
        help="reference translations, one per line",
    )
    command.add_argument(
        "--hyp", type=Path, metavar="FILE", help="score these translations instead of a model"
    )
    command.add_argument("--save", type=Path, metavar="FILE", help="write the translations to FILE")
    command.add_argument(
        "--bootstrap", action="store_true", help="add a bootstrap confidence interval"
    )
    command.add_argument("--json", action="store_true", help="print one JSON object")
    add_model_options(command, required=False)
    add_decoding_options(command)


def add_score(command: Parser) -> None:
    """Add the arguments of `score`."""
    command.add_argument("--src", type=Path, metavar="FILE", required=True, help="source sentences")
    command.add_argument(
        "--tgt", type=Path, metavar="FILE", required=True, help="their translations"
    )
    command.add_argument("--json", action="store_true", help="print one JSON object per line")
    add_model_options(command)
    command.add_argument(
        "--split", action=argparse.BooleanOptionalAction, default=True, help=TEXT_FLAGS["split"]
    )


def add_export(command: Parser) -> None:
    """Add the arguments of `export`."""
    command.add_argument("model", metavar="MODEL", help="bundled name, folder, or user/name")
    command.add_argument("dir", type=Path, metavar="DIR", help="output folder")
    command.add_argument(
        "--to",
        required=True,
        choices=["ctranslate2", "onnx", "float16", "int8"],
        help="a folder for CTranslate2 or ONNX Runtime, or a hubnmt folder with smaller weights",
    )
    command.add_argument("--quantization", help="CTranslate2 type such as int8 (default: float32)")


def add_list(command: Parser) -> None:
    """Add the arguments of `list`."""
    command.add_argument("--author", default="", metavar="A", help="user or organization")
    command.add_argument("--search", default="", metavar="S", help="part of the name")
    command.add_argument(
        "--limit",
        type=int,
        default=LIST_LIMIT,
        metavar="N",
        help=f"most Hub models to list (default: {LIST_LIMIT})",
    )
    command.add_argument("--json", action="store_true", help="print one JSON object per line")
    command.set_defaults(interrupted="nothing was changed")


def add_pull(command: Parser) -> None:
    """Add the arguments of `pull`."""
    command.add_argument("model", metavar="USER/NAME[@REV]", help="REV: branch, tag or commit")
    command.add_argument(
        "dir", nargs="?", type=Path, metavar="DIR", help="output folder (default: the cache)"
    )
    command.add_argument("--json", action="store_true", help="print one JSON object")
    kept = "no incomplete file is used; pull again to continue"
    command.set_defaults(interrupted=kept)


def add_push(command: Parser) -> None:
    """Add the arguments of `push`."""
    command.add_argument("dir", type=Path, metavar="DIR", help="model folder")
    command.add_argument("repo", metavar="USER/NAME", help="repository; created if missing")
    command.add_argument("--private", action="store_true", help="create it as private")
    command.add_argument(
        "--revision", metavar="R", help="branch, created if missing (default: main)"
    )
    command.add_argument("--create-pr", action="store_true", help="open a pull request instead")
    command.add_argument("--message", metavar="M", help="commit message")
    command.add_argument("--json", action="store_true", help="print one JSON object")
    kept = "the commit was made completely or not at all; push again to make sure"
    command.set_defaults(interrupted=kept)


def add_space(command: Parser) -> None:
    """Add the arguments of `space`."""
    command.add_argument("repo", metavar="USER/NAME", help="Space; created if missing")
    command.add_argument(
        "--model", required=True, metavar="MODEL", help="bundled name or user/name on the Hub"
    )
    visibility = command.add_mutually_exclusive_group()
    visibility.add_argument("--private", action="store_true", help="create it as private")
    visibility.add_argument(
        "--public",
        action="store_true",
        help="allow public use of a private model, with --with-token",
    )
    command.add_argument(
        "--with-token",
        action="store_true",
        help="store your token as a secret of the Space, to read a private model; the Space is "
        "then private too, unless --public is given",
    )
    command.add_argument("--json", action="store_true", help="print one JSON object")
    kept = "the commit was made completely or not at all; run it again to make sure"
    command.set_defaults(interrupted=kept)


def add_inspect(command: Parser) -> None:
    """Add the arguments of `inspect`."""
    command.add_argument("model", metavar="MODEL", help="bundled name, folder, or user/name")
    command.add_argument("--text", help="sentence to translate")
    command.add_argument("--json", action="store_true", help="print one JSON object")


def add_model_options(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add the options that select a model and how it runs."""
    parser.add_argument(
        "--model", required=required, metavar="MODEL", help="bundled name, folder, or user/name"
    )
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, ... (default: cpu)")
    parser.add_argument(
        "--engine",
        default=ENGINES[0],
        choices=ENGINES,
        help="decoding engine (default: torch; ctranslate2 needs hubnmt[ct2])",
    )
    parser.add_argument(
        "--dtype",
        default="float32",
        choices=DTYPE_NAMES,
        help="weight type (default: float32); auto: the faster of float32 and bfloat16; "
        "int8: products of the search in 8 bits",
    )
    parser.add_argument(
        "--batch-tokens",
        type=int,
        default=DEFAULT_BATCH_TOKENS,
        metavar="N",
        help="source tokens times hypotheses per batch",
    )


def add_decoding_options(parser: argparse.ArgumentParser) -> None:
    """Add the text options, the prefix, and one option per field of `DecodingConfig`.

    Omitted decoding options take the model's defaults.
    """
    switch = argparse.BooleanOptionalAction
    for name, description in TEXT_FLAGS.items():
        parser.add_argument(f"--{name}", action=switch, default=True, help=description)
    parser.add_argument(
        "--prefix", default="", metavar="TEXT", help="text that the translation must begin with"
    )
    group = parser.add_argument_group("decoding (defaults come with the model)")
    hints = typing.get_type_hints(DecodingConfig)
    for field in dataclasses.fields(DecodingConfig):
        flag, hint = "--" + field.name.replace("_", "-"), hints[field.name]
        description = DECODING_HELP[field.name]
        if hint is bool:
            group.add_argument(flag, action=switch, default=None, help=description)
            continue
        options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        kind = options[0]
        metavar = kind.__name__.upper()
        group.add_argument(flag, type=kind, default=None, metavar=metavar, help=description)


def add_app(command: Parser) -> None:
    """Add the arguments of `app`."""
    command.add_argument("--model", default="", metavar="MODEL", help="model that it opens with")
    command.add_argument(
        "--host", help="address to listen on; 0.0.0.0 accepts connections from other machines"
    )
    command.add_argument("--port", type=int, help="port (default: the first free one from 7860)")
    command.add_argument("--share", action="store_true", help="create a public link through Gradio")
    command.add_argument(
        "--mcp", action="store_true", help="expose the endpoints as MCP tools (needs hubnmt[mcp])"
    )


class Command(typing.NamedTuple):
    """One command of `hubnmt`."""

    add_arguments: Callable[[Parser], None]
    run: str
    """Name of the function that runs it, imported only then."""
    summary: str


COMMANDS = {
    "translate": Command(
        add_translate,
        "hubnmt.cli.translate:run_translate",
        "translate arguments, a file or standard input",
    ),
    "evaluate": Command(
        add_evaluate,
        "hubnmt.cli.evaluate:run_evaluate",
        "compute BLEU and chrF of a model or a file",
    ),
    "score": Command(
        add_score, "hubnmt.cli.evaluate:run_score", "score given translations by log-probability"
    ),
    "app": Command(
        add_app, "hubnmt.ui.gradio.launch:run_app", "open the page in the browser (hubnmt[app])"
    ),
    "inspect": Command(
        add_inspect,
        "hubnmt.cli.inspect:run_inspect",
        "show the configuration of a model and test it",
    ),
    "export": Command(
        add_export, "hubnmt.cli.export:run_export", "convert a model for another runtime"
    ),
    "list": Command(
        add_list, "hubnmt.cli.list_models:run_list", "list models: bundled, cached, on the Hub"
    ),
    "pull": Command(add_pull, "hubnmt.cli.hub:run_pull", "download a model from the Hub"),
    "push": Command(add_push, "hubnmt.cli.hub:run_push", "publish a model folder on the Hub"),
    "space": Command(
        add_space, "hubnmt.cli.hub:run_space", "create or update a Space that serves a model"
    ),
}


def build_parser() -> Parser:
    """Build the parser of the command line."""
    parser = Parser(
        prog="hubnmt", description="Translate with hubnmt models, evaluate and inspect them."
    )
    parser.add_argument("--version", action="version", version=f"hubnmt {hubnmt.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    for name, command in COMMANDS.items():
        subparser = commands.add_parser(name, help=command.summary)
        command.add_arguments(subparser)
        subparser.set_defaults(run=command.run)
    return parser

"""The commands: `hubnmt translate | evaluate | score | inspect | export`, or `python -m hubnmt`.

Takes arguments, files and standard input; gives results on standard output, everything else on
standard error. Must not know Gradio or training. Exit status: 0 done, 2 the request was wrong (one
line says what and how to mend it), 1 anything else.
"""

import argparse
import contextlib
import dataclasses
import itertools
import json
import os
import platform
import sys
import time
import types
import typing
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeVar

import torch
from tqdm import tqdm

import hubnmt
from hubnmt.checkpoint import load_model
from hubnmt.config import DecodingConfig
from hubnmt.engine import DEFAULT_BATCH_TOKENS
from hubnmt.errors import ConfigError, HubNMTError, InputError
from hubnmt.export import export_ctranslate2
from hubnmt.metrics import Scores, score_corpus
from hubnmt.textfile import count_lines, open_output, read_aligned, read_lines, read_stdin
from hubnmt.translation import Translation
from hubnmt.translator import DTYPES, Translator, find_model

CHUNK_LINES = 256
"""Lines translated together: enough to sort by length, few enough for constant memory."""
ROUND_TRIP = "Grüße, naïve café — മലയാളം ക്ഷ, हिन्दी, العربية 👩‍👩‍👧 <eos>\t 2026"
EXAMPLES = {
    "de": "Ein kleiner Hund rennt durch den Schnee.",
    "en": "A small dog is running through the snow.",
    "fr": "Un petit chien court dans la neige.",
    "ml": "ഒരു ചെറിയ നായ മഞ്ഞിലൂടെ ഓടുന്നു.",
}


_Item = TypeVar("_Item")


class Parser(argparse.ArgumentParser):
    """An argument parser whose mistakes are one line, like every other mistake here."""

    def error(self, message: str) -> NoReturn:
        """Report a bad command line."""
        raise ConfigError(f"{message}; see {self.prog} --help")


def add_model_options(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add where and how a model runs."""
    parser.add_argument(
        "--model", required=required, metavar="MODEL", help="bundled name or model folder"
    )
    parser.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1, ... (default: cpu)")
    parser.add_argument("--dtype", default="float32", choices=sorted(DTYPES), help="of the weights")
    parser.add_argument(
        "--batch-tokens",
        type=int,
        default=DEFAULT_BATCH_TOKENS,
        metavar="N",
        help="source tokens times hypotheses per batch",
    )


def add_decoding_options(parser: argparse.ArgumentParser) -> None:
    """Add one option per field of `DecodingConfig`; left out, the model's default holds."""
    group = parser.add_argument_group("decoding (defaults come with the model)")
    hints = typing.get_type_hints(DecodingConfig)
    for field in dataclasses.fields(DecodingConfig):
        flag, hint = "--" + field.name.replace("_", "-"), hints[field.name]
        if hint is bool:
            group.add_argument(flag, action=argparse.BooleanOptionalAction, default=None)
            continue
        options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        group.add_argument(flag, type=options[0], default=None, metavar=options[0].__name__.upper())


def decoding_options(options: argparse.Namespace) -> dict[str, Any]:
    """Pick the decoding options that were given."""
    names = [field.name for field in dataclasses.fields(DecodingConfig)]
    return {name: value for name in names if (value := getattr(options, name)) is not None}


def build_parser() -> Parser:
    """Describe all commands."""
    parser = Parser(prog="hubnmt", description="Translate, measure and look into hubnmt models.")
    parser.add_argument("--version", action="version", version=f"hubnmt {hubnmt.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)

    translate = commands.add_parser("translate", help="translate arguments, a file, or stdin")
    translate.add_argument("text", nargs="*", metavar="TEXT")
    translate.add_argument("--input", type=Path, metavar="FILE", help="one text a line")
    translate.add_argument("--output", type=Path, metavar="FILE", help="one translation a line")
    translate.add_argument("--overwrite", action="store_true", help="replace an existing output")
    translate.add_argument(
        "--continue", dest="carry_on", action="store_true", help="go on behind the output's lines"
    )
    translate.add_argument("--json", action="store_true", help="one JSON object a line")
    add_model_options(translate)
    add_decoding_options(translate)
    translate.set_defaults(run=run_translate)

    evaluate = commands.add_parser("evaluate", help="BLEU and chrF of a model or of a file")
    evaluate.add_argument("--src", type=Path, metavar="FILE", help="source lines (with --model)")
    evaluate.add_argument("--ref", type=Path, metavar="FILE", required=True, help="references")
    evaluate.add_argument("--hyp", type=Path, metavar="FILE", help="translations to score instead")
    evaluate.add_argument("--save", type=Path, metavar="FILE", help="keep the translations")
    evaluate.add_argument("--bootstrap", action="store_true", help="add a confidence interval")
    evaluate.add_argument("--json", action="store_true", help="one JSON object")
    add_model_options(evaluate, required=False)
    add_decoding_options(evaluate)
    evaluate.set_defaults(run=run_evaluate)

    score = commands.add_parser("score", help="log-probability of given translations")
    score.add_argument("--src", type=Path, metavar="FILE", required=True, help="source lines")
    score.add_argument("--tgt", type=Path, metavar="FILE", required=True, help="their translations")
    score.add_argument("--json", action="store_true", help="one JSON object a line")
    add_model_options(score)
    score.set_defaults(run=run_score)

    export = commands.add_parser("export", help="the same weights for another runtime")
    export.add_argument("model", metavar="MODEL", help="bundled name or model folder")
    export.add_argument("dir", type=Path, metavar="DIR", help="folder to write")
    export.add_argument("--to", required=True, choices=["ctranslate2"])
    export.add_argument("--quantization", help="a CTranslate2 type such as int8 (default: float32)")
    export.set_defaults(run=run_export)

    inspect = commands.add_parser("inspect", help="what a model is, and whether it works")
    inspect.add_argument("model", metavar="MODEL", help="bundled name or model folder")
    inspect.add_argument("--text", help="a sentence to try it on")
    inspect.add_argument("--json", action="store_true", help="one JSON object")
    inspect.set_defaults(run=run_inspect)
    return parser


def run_translate(options: argparse.Namespace) -> None:
    """Translate line by line, in chunks, in constant memory."""
    if options.text and options.input:
        raise ConfigError("give texts or --input FILE, not both")
    if options.carry_on and options.overwrite:
        raise ConfigError("give --continue or --overwrite, not both")
    if options.carry_on and not (options.input and options.output):
        raise ConfigError("--continue needs --input FILE and --output FILE")
    if options.input and options.output and options.input.resolve() == options.output.resolve():
        raise ConfigError(f"--input and --output are the same file {options.input}")
    total = count_lines(options.input) if options.input else None
    translator = Translator.from_pretrained(
        options.model, device=options.device, dtype=options.dtype
    )
    decoding = decoding_options(options)
    translator.translate([], **decoding)  # a bad option shows before a file is opened
    with contextlib.ExitStack() as stack:
        sink, n_done = sys.stdout.buffer, 0
        if options.output:
            sink, n_done = stack.enter_context(
                open_output(options.output, overwrite=options.overwrite, carry_on=options.carry_on)
            )
        lines = _input_lines(options, skip=n_done)
        bar = stack.enter_context(_progress(total, n_done))
        for chunk in _chunks(lines):
            translations = translator.translate(
                chunk, batch_tokens=options.batch_tokens, **decoding
            )
            _write(sink, translations, as_json=options.json)
            for number, translation in enumerate(translations, start=int(bar.n) + 1):
                for warning in translation.warnings:
                    tqdm.write(f"line {number}: {warning}", file=sys.stderr)
            bar.update(len(chunk))


def _input_lines(options: argparse.Namespace, *, skip: int) -> Iterator[str]:
    if options.text:
        return iter(options.text)
    return read_lines(options.input, skip=skip) if options.input else read_stdin()


def _chunks(lines: Iterable[_Item]) -> Iterator[list[_Item]]:
    iterator = iter(lines)
    while chunk := list(itertools.islice(iterator, CHUNK_LINES)):
        yield chunk


def _progress(total: int | None, n_done: int) -> "tqdm[Any]":
    """Show progress on a terminal; a pipe or a log gets none."""
    hidden = not sys.stderr.isatty() or (total is not None and total < 2)
    return tqdm(total=total, initial=n_done, unit="line", file=sys.stderr, disable=hidden)


def _write(sink: BinaryIO, translations: Sequence[Translation], *, as_json: bool) -> None:
    for translation in translations:
        line = (
            json.dumps(translation.to_dict(), ensure_ascii=False) if as_json else translation.text
        )
        sink.write(line.replace("\n", " ").encode() + b"\n")
    sink.flush()


def run_evaluate(options: argparse.Namespace) -> None:
    """Score a model's translations, or a file of them."""
    if options.save and options.save.exists():
        raise InputError(f"--save: {options.save} exists; name another file")
    if (options.model is None) == (options.hyp is None):
        raise ConfigError("give either --model MODEL with --src FILE, or --hyp FILE")
    if options.hyp:
        hypotheses, references = read_aligned(options.hyp, options.ref)
        seconds, n_tokens = None, 0
    else:
        if options.src is None:
            raise ConfigError("--model needs --src FILE")
        sources, references = read_aligned(options.src, options.ref)
        translator = Translator.from_pretrained(
            options.model, device=options.device, dtype=options.dtype
        )
        started = time.perf_counter()
        translations = []
        decoding = decoding_options(options)
        with _progress(len(sources), 0) as bar:
            for chunk in _chunks(sources):
                translations += translator.translate(
                    chunk, batch_tokens=options.batch_tokens, **decoding
                )
                bar.update(len(chunk))
        seconds = time.perf_counter() - started
        hypotheses = [translation.text for translation in translations]
        n_tokens = sum(len(translation.tgt_tokens) for translation in translations)
    scores = score_corpus(hypotheses, references, bootstrap=options.bootstrap)
    if options.save:
        with open_output(options.save, overwrite=False, carry_on=False) as (sink, _):
            sink.write("".join(f"{line}\n" for line in hypotheses).encode())
    _print_scores(scores, seconds, n_tokens, as_json=options.json)


def _print_scores(scores: Scores, seconds: float | None, n_tokens: int, *, as_json: bool) -> None:
    speed = n_tokens / seconds if seconds else None
    if as_json:
        values = {
            "n": scores.n,
            "bleu": scores.bleu,
            "bleu_signature": scores.bleu_signature,
            "chrf": scores.chrf,
            "chrf_signature": scores.chrf_signature,
            "chrf++": scores.chrf_plus_plus,
            "seconds": seconds,
            "tgt_tokens_per_s": speed,
        }
        if scores.bleu_interval is not None:
            values["bleu_interval"] = scores.bleu_interval
        print(json.dumps(values))
        return
    interval = "" if scores.bleu_interval is None else f" ± {scores.bleu_interval:.2f}"
    print(f"BLEU   {scores.bleu:.2f}{interval}  {scores.bleu_signature}")
    print(f"chrF   {scores.chrf:.2f}  {scores.chrf_signature}")
    print(f"chrF++ {scores.chrf_plus_plus:.2f}")
    if seconds is not None:
        print(f"{scores.n:,} lines in {seconds:.1f} s, {speed:,.0f} target tokens/s")


def run_score(options: argparse.Namespace) -> None:
    """Print how probable the model finds each line's translation."""
    sources, targets = read_aligned(options.src, options.tgt)
    translator = Translator.from_pretrained(
        options.model, device=options.device, dtype=options.dtype
    )
    with _progress(len(sources), 0) as bar:
        for chunk in _chunks(zip(sources, targets, strict=True)):
            for result in translator.score([src for src, _ in chunk], [tgt for _, tgt in chunk]):
                if options.json:
                    print(json.dumps(dataclasses.asdict(result), ensure_ascii=False))
                else:
                    print(f"{result.log_prob:.4f}\t{result.perplexity:.4f}")
            bar.update(len(chunk))


def run_export(options: argparse.Namespace) -> None:
    """Write a folder for another runtime."""
    if options.dir.exists() and any(options.dir.iterdir() if options.dir.is_dir() else [1]):
        raise InputError(f"{options.dir} exists and is not empty; name another folder")
    export_ctranslate2(
        load_model(find_model(options.model)), options.dir, quantization=options.quantization
    )
    print(options.dir)


def run_inspect(options: argparse.Namespace) -> None:
    """Report what a model is: the first answer to "it is broken"."""
    translator = Translator.from_pretrained(options.model)
    facts = inspect_model(translator, options.text)
    if options.json:
        print(json.dumps(facts, ensure_ascii=False))
        return
    for title, values in facts.items():
        print(title)
        for key, value in values.items():
            print(f"  {key}: {value}")


def inspect_model(translator: Translator, text: str | None = None) -> dict[str, dict[str, Any]]:
    """Collect versions, config, parameters per part, a tokenizer round trip, one translation."""
    config, model = translator.config, translator.model
    text = text or EXAMPLES.get(config.src_lang.split("-")[0], EXAMPLES["en"])
    translation = translator.translate(text)
    parts = {
        name: sum(parameter.numel() for parameter in part.parameters())
        for name, part in model.named_children()
        if any(True for _ in part.parameters())
    }
    if config.tie_output:
        parts["output_proj"] = 0
    if config.share_embeddings:
        parts["tgt_embedding"] = 0
    decoded = translator.src_tokenizer.decode(translator.src_tokenizer.encode(ROUND_TRIP))
    pieces = {
        "source": len(translation.src_tokens) - 1,
        "translation": len(translation.tgt_tokens) - 1,
    }
    words = {"source": len(text.split()), "translation": len(translation.text.split())}
    return {
        "versions": {
            "hubnmt": hubnmt.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "config": config.to_dict(),
        "decoding": translator.decoding.to_dict(),
        "parameters": {**parts, "total": config.n_parameters},
        "tokenizer": {
            "round trip": "exact" if decoded == ROUND_TRIP else f"BROKEN: {decoded!r}",
            **{
                f"pieces per word, {side}": round(pieces[side] / max(words[side], 1), 2)
                for side in pieces
            },
        },
        "translation": {
            "src": text,
            "text": translation.text,
            "score": translation.score,
            "tgt_tokens": list(translation.tgt_tokens),
            "tgt_log_probs": [round(value, 3) for value in translation.tgt_log_probs],
            "warnings": list(translation.warnings),
        },
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        the exit status.
    """
    try:
        options = build_parser().parse_args(arguments)
        options.run(options)
        sys.stdout.flush()
    except HubNMTError as error:
        print(f"hubnmt: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("hubnmt: interrupted; what was written is kept (--continue)", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())

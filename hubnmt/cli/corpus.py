"""`hubnmt translate --ray`: translate a corpus of many files."""

import argparse
import sys

from tqdm import tqdm

from hubnmt.batch import TranslateBatch
from hubnmt.cli.options import translate_options
from hubnmt.errors import ConfigError


def add_corpus_options(translate: argparse.ArgumentParser) -> None:
    """Add the options of a corpus to the parser of `translate`."""
    group = translate.add_argument_group(
        "a corpus of many files",
        "Needs hubnmt[ray]. --input is a folder, a pattern such as 'corpus/*.parquet' or "
        "hf://datasets/..., --output a folder; files that are there already are kept.",
    )
    group.add_argument(
        "--ray", metavar="ADDRESS", help="Ray cluster: local (start one), auto, or an address"
    )
    group.add_argument(
        "--ray-actors",
        type=int,
        metavar="N",
        help="copies of the model (default: one per GPU with --device cuda, else per 4 cores)",
    )
    group.add_argument(
        "--src-column", default="text", metavar="NAME", help="column of texts (default: text)"
    )
    group.add_argument(
        "--tgt-column",
        default="translation",
        metavar="NAME",
        help="new column of translations (default: translation)",
    )
    group.add_argument(
        "--score-column", metavar="NAME", help="new column of scores (default: none)"
    )


def translate_on_ray(options: argparse.Namespace) -> None:
    """Translate the files of a corpus that are not in the output folder yet."""
    if options.text or options.json or not (options.input and options.output):
        raise ConfigError("--ray needs --input and --output, and takes no texts and no --json")
    try:
        from hubnmt.corpus import ray_data, shards
    except ImportError as error:
        raise ConfigError(f"--ray: {error}; install 'hubnmt[ray]'") from None
    found = shards.list_shards(options.input)
    todo = [
        each for each in found if options.overwrite or not (options.output / each.name).exists()
    ]
    n_kept = len(found) - len(todo)
    if n_kept:
        _say(f"{n_kept} of {len(found)} files are in {options.output} already")
    if not todo:
        return
    types = {options.tgt_column: "string"}
    if options.score_column:
        types[options.score_column] = "double"
    shards.check_columns(todo[0], options.src_column, types)
    decoding = translate_options(options)
    TranslateBatch(options.model, src_column="text", **decoding).load()  # reports mistakes at once
    n_bad = n_rows = 0

    def report(shard: shards.Shard, row: int, problem: str) -> None:
        nonlocal n_bad
        n_bad += 1
        _say(f"{shard.url}, row {row:,}: not translated: {problem}")

    def advance(n_files: int, n_new: int) -> None:
        nonlocal n_rows
        n_rows += n_new
        bar.set_postfix(rows=f"{n_rows:,}", refresh=False)
        bar.update(n_files)

    hidden = not sys.stderr.isatty()
    with (
        ray_data.connect(options.ray),
        tqdm(total=len(found), initial=n_kept, unit="file", file=sys.stderr, disable=hidden) as bar,
    ):
        ray_data.translate_corpus(
            todo,
            options.output,
            model=options.model,
            src_column=options.src_column,
            types=types,
            n_actors=options.ray_actors,
            report=report,
            advance=advance,
            device=options.device,
            dtype=options.dtype,
            engine=options.engine,
            **decoding,
        )
    _say(f"{n_rows:,} rows of {len(todo)} files, {n_bad:,} of them not translated")


def _say(message: str) -> None:
    tqdm.write(message, file=sys.stderr)

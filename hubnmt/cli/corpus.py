"""`hubnmt translate --ray`: translate a corpus of many files."""

import argparse
import sys

from tqdm import tqdm

from hubnmt.batch import TranslateBatch
from hubnmt.cli.options import translate_options
from hubnmt.cli.progress import CorpusProgress
from hubnmt.errors import ConfigError


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
    n_bad = 0

    def report(shard: shards.Shard, row: int, problem: str) -> None:
        nonlocal n_bad
        n_bad += 1
        _say(f"{shard.url}, row {row:,}: not translated: {problem}")

    with ray_data.connect(options.ray), CorpusProgress(len(found), n_kept) as progress:
        ray_data.translate_corpus(
            todo,
            options.output,
            model=options.model,
            src_column=options.src_column,
            types=types,
            n_actors=options.ray_actors,
            report=report,
            advance=progress.count,
            device=options.device,
            dtype=options.dtype,
            engine=options.engine,
            **decoding,
        )
    _say(f"{progress.summarize()}, {n_bad:,} of them not translated; {len(todo)} files")


def _say(message: str) -> None:
    tqdm.write(message, file=sys.stderr)

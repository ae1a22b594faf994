"""Translate the shards of a corpus on Ray Data: readers, a pool of actors, one writer.

Only texts and translations pass through Ray, in the order of the corpus. The driver writes the
shards, for which it reads their other columns once more.
"""

import contextlib
import functools
import itertools
import logging
import operator
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
import ray.data
from ray.exceptions import RayError

from hubnmt.batch import TranslateBatch
from hubnmt.corpus.shards import Shard, read_texts, write_shard
from hubnmt.errors import ConfigError, HubNMTError, InputError, first_few, shorten

BLOCK_BYTES = 2**17
"""Size of a block of texts, the unit of work: about a thousand sentences."""
CORES_PER_ACTOR = 4
"""More cores than this make one sentence faster, but not a block."""
N_READERS = 2
"""Shards read at once."""


@contextlib.contextmanager
def connect(address: str) -> Iterator[None]:
    """Start a Ray of this process (`local`), or use one of this machine (`auto`) or of an address.

    Raises:
        ConfigError: if there is none, or it does not start in the 30 s that Ray allows.
    """
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a local Ray would report its use
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # Ray raises a bare one where its processes do not start in time
        remedy = "start one with 'ray start --head', or use --ray local"
        if address == "local":
            remedy = "Ray did not start; if the machine was busy, try again"
        raise ConfigError(f"--ray {address}: {shorten(error)}; {remedy}") from None
    try:
        yield
    finally:
        ray.shutdown()


def translate_corpus(
    shards: Sequence[Shard],
    output: Path,
    *,
    model: str,
    src_column: str,
    types: Mapping[str, str],
    n_actors: int | None,
    report: Callable[[Shard, int, str], None],
    advance: Callable[[int, int], None],
    **options: Any,
) -> None:
    """Translate shards on the connected Ray; each appears in the output when it is complete.

    Ray restarts actors that die and repeats the block that they had.

    Args:
        shards: the shards to translate.
        output: folder for the translated shards.
        model: see `TranslateBatch`.
        src_column: column of texts.
        types: Arrow types of the new columns: the translation, and the score if wanted.
        n_actors: number of models; by default one per GPU (`device="cuda"`) or per few cores.
        report: called with shard, number of the row from 1, and why it was not translated.
        advance: called with the number of new shards and of new rows.
        options: see `TranslateBatch`.

    Raises:
        InputError: after all others were translated, naming the shards that could not be read.
        HubNMTError: if the model cannot be loaded or used.
    """
    columns = ["text", "translation", "score"][: len(types) + 1]
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True
    context.target_max_block_size = BLOCK_BYTES
    items = [{"shard": n, "url": each.url, "name": each.name} for n, each in enumerate(shards)]
    dataset = (
        ray.data.from_items(items, override_num_blocks=len(items))
        .map_batches(
            functools.partial(_read, column=src_column),
            batch_size=None,  # a block
            compute=ray.data.TaskPoolStrategy(size=N_READERS),
            num_cpus=0,  # the actors may have all cores
        )
        .map_batches(
            TranslateBatch,
            fn_constructor_args=(model,),
            fn_constructor_kwargs={
                "src_column": columns[0],
                "score_column": columns[2] if len(columns) > 2 else None,
                "problem_column": "problem",
                **options,
            },
            batch_size=None,
            **_allot(n_actors, uses_gpus=options["device"].startswith("cuda")),
        )
    )
    rows = _rows(dataset, ["shard", *columns[1:], "problem"], functools.partial(advance, 0))
    remaining, failures = dict(enumerate(shards)), []

    def write(shard: Shard, rows: Iterator[Sequence[Any]]) -> None:
        say = functools.partial(report, shard)
        try:
            write_shard(shard, src_column, output / shard.name, types, rows, say)
        except InputError as error:
            failures.append(str(error))
        advance(1, 0)

    for number, group in itertools.groupby(rows, key=operator.itemgetter(0)):
        write(remaining.pop(number), (row[1:] for row in group))
    for shard in remaining.values():  # without rows
        write(shard, iter(()))
    if failures:
        raise InputError(first_few(failures))


def _allot(n_actors: int | None, *, uses_gpus: bool) -> dict[str, Any]:
    """Return the size of the actor pool, and the resources of each actor, as arguments of Ray."""
    has: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]  # Ray's
    n_gpus, n_cores = int(has.get("GPU", 0)), int(has.get("CPU", 1))
    if uses_gpus and not n_gpus:
        raise ConfigError("--device cuda: this Ray has no GPU")
    size = n_actors or (n_gpus if uses_gpus else max(n_cores // CORES_PER_ACTOR, 1))
    pool = ray.data.ActorPoolStrategy(size=size)
    if uses_gpus:
        return {"compute": pool, "num_gpus": min(n_gpus / size, 1)}
    if size > n_cores:
        raise ConfigError(f"--ray-actors {size}: this Ray has {n_cores} cores, and each needs one")
    return {"compute": pool, "num_cpus": min(n_cores // size, CORES_PER_ACTOR)}


def _read(batch: dict[str, Any], column: str) -> Iterator[dict[str, list[Any]]]:
    """Yield the texts of shards, with the number of their shard."""
    for number, url, name in zip(batch["shard"], batch["url"], batch["name"], strict=True):
        with contextlib.suppress(InputError):  # raised again where the shard is written
            for texts in read_texts(Shard(url, name), column):
                yield {"shard": [int(number)] * len(texts), "text": texts}


def _rows(
    dataset: Any, columns: Sequence[str], advance: Callable[[int], None]
) -> Iterator[tuple[Any, ...]]:
    """Run the pipeline and yield the columns of each row, in order."""
    try:
        for block in dataset.iter_batches(batch_size=None, batch_format="pyarrow"):
            yield from zip(*(block.column(name).to_pylist() for name in columns), strict=True)
            advance(block.num_rows)
    except RayError as error:
        # Ray hands on the text of an actor's exception, but not always the exception.
        if own := re.search(r"hubnmt\.errors\.\w+: (.+)\s*$", str(error)):
            raise HubNMTError(own[1]) from None
        raise

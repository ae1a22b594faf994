"""`hubnmt list`: the models that are bundled, cached and on the Hub. Does not import torch."""

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Iterator
from itertools import islice

from hubnmt.errors import ConfigError, HubUnreachableError
from hubnmt.hub.listing import ListedModel, list_bundled, list_cached, list_hub


def run_list(options: argparse.Namespace) -> None:
    """Print one model per line; Hub models as their pages arrive."""
    if options.limit < 0:
        raise ConfigError(f"--limit = {options.limit} must be at least 0")
    for model in _find_models(options):
        print(_to_json(model) if options.json else _to_line(model), flush=True)


def _find_models(options: argparse.Namespace) -> Iterator[ListedModel]:
    if not options.author:
        yield from list_bundled(search=options.search)
    yield from list_cached(author=options.author, search=options.search)
    if os.environ.get("HUBNMT_HUB") == "0":
        return
    found = list_hub(author=options.author, search=options.search)
    try:
        yield from islice(found, options.limit)
        if options.limit and next(found, None) is not None:
            print(f"there are more models: use --limit {2 * options.limit}", file=sys.stderr)
    except HubUnreachableError as error:  # the local models are listed regardless
        print(f"hubnmt: the Hub's models are not listed: {error}", file=sys.stderr)


def _to_line(model: ListedModel) -> str:
    pair = f"{model.src_lang} to {model.tgt_lang}" if model.src_lang else "-"
    bleu = next((f"BLEU {s.value:.1f}" for s in model.scores if s.metric == "BLEU"), "-")
    size = "-" if model.size_bytes is None else f"{model.size_bytes / 1e6:.1f} MB"
    private = " private" if model.is_private else ""
    return f"{model.name:<40} {pair:<10} {bleu:<10} {size:>10}  {model.source}{private}"


def _to_json(model: ListedModel) -> str:
    values = dataclasses.asdict(model)
    scores = values.pop("scores")
    named = {score["metric"].lower(): score["value"] for score in scores}
    return json.dumps({**values, **named}, ensure_ascii=False)

"""`hubnmt list`, `pull`, `push` and `space`: models on the Hugging Face Hub.

Tokens come from `HF_TOKEN` or the stored login, never from the command line, where other users
could see them in the process list.
"""

import dataclasses
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from hubnmt.cli.options import AsJson
from hubnmt.errors import ConfigError, HubUnreachableError

if TYPE_CHECKING:
    from hubnmt.hub.listing import ListedModel


def list_models(
    author: Annotated[str, Option(metavar="A", help="user or organization")] = "",
    search: Annotated[str, Option(metavar="S", help="part of the name")] = "",
    limit: Annotated[int, Option(min=0, max=1000, help="most Hub models to list")] = 100,
    as_json: AsJson = False,
) -> None:
    """List models: bundled, cached, on the Hub."""
    for model in _find_models(author, search, limit):
        print(_to_json(model) if as_json else _to_line(model), flush=True)


def _find_models(author: str, search: str, limit: int) -> "Iterator[ListedModel]":
    from hubnmt.hub.listing import list_bundled, list_cached, list_hub

    for model in (*list_bundled(), *list_cached()):
        name, owner = model.name.lower(), model.name.lower().rpartition("/")[0]
        if author.lower() in ("", owner) and search.lower() in name:
            yield model
    if os.environ.get("HUBNMT_HUB") == "0" or not limit:
        return
    try:
        found = list_hub(author=author, search=search, limit=limit)
    except HubUnreachableError as error:  # the local models are listed regardless
        print(f"hubnmt: the Hub's models are not listed: {error}", file=sys.stderr)
        return
    yield from found
    if len(found) == limit:
        print(f"there may be more models than --limit {limit}", file=sys.stderr)


def _to_line(model: "ListedModel") -> str:
    pair = f"{model.src_lang} to {model.tgt_lang}" if model.src_lang else "-"
    bleu = next((f"BLEU {s.value:.1f}" for s in model.scores if s.metric == "BLEU"), "-")
    size = "-" if model.size_bytes is None else f"{model.size_bytes / 1e6:.1f} MB"
    private = " private" if model.is_private else ""
    return f"{model.name:<40} {pair:<10} {bleu:<10} {size:>10}  {model.source}{private}"


def _to_json(model: "ListedModel") -> str:
    values = dataclasses.asdict(model)
    scores = values.pop("scores")
    named = {score["metric"].lower(): score["value"] for score in scores}
    return json.dumps({**values, **named}, ensure_ascii=False)


def pull(
    model: Annotated[str, Argument(metavar="USER/NAME[@REV]", help="REV: branch, tag or commit")],
    folder: Annotated[
        Path | None, Argument(metavar="DIR", help="output folder (default: the cache)")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Download a model from the Hub."""
    from hubnmt.hub.client import parse_reference
    from hubnmt.hub.pull import pull as pull_to_cache
    from hubnmt.hub.pull import pull_to

    reference = parse_reference(model)
    if reference is None:
        raise ConfigError(f"{model!r} must be USER/NAME or USER/NAME@REVISION")
    pulled = pull_to(reference, folder) if folder else pull_to_cache(reference)
    result = folder or pulled
    facts = {"model": str(reference), "commit": pulled.name, "folder": str(result)}
    _report(facts, f"{reference} is commit {pulled.name}", result=result, as_json=as_json)


def push(
    folder: Annotated[Path, Argument(metavar="DIR", help="model folder")],
    repo: Annotated[str, Argument(metavar="USER/NAME", help="repository; created if missing")],
    private: Annotated[bool, Option("--private", help="create it as private")] = False,
    revision: Annotated[
        str | None, Option(metavar="R", help="branch, created if missing (default: main)")
    ] = None,
    create_pr: Annotated[bool, Option("--create-pr", help="open a pull request instead")] = False,
    message: Annotated[str | None, Option(metavar="M", help="commit message")] = None,
    as_json: AsJson = False,
) -> None:
    """Publish a model folder on the Hub."""
    from hubnmt.hub.push import push as push_folder

    pushed = push_folder(
        folder, repo, private=private, revision=revision, create_pr=create_pr, message=message
    )
    change = "" if pushed.is_changed else ", as before"
    sentence = f"{repo} is commit {pushed.commit}{change}"
    _report(dataclasses.asdict(pushed), sentence, result=pushed.url, as_json=as_json)


def space(
    repo: Annotated[str, Argument(metavar="USER/NAME", help="Space; created if missing")],
    *,
    model: Annotated[str, Option(metavar="MODEL", help="bundled name or user/name on the Hub")],
    private: Annotated[bool, Option("--private", help="create it as private")] = False,
    public: Annotated[
        bool,
        Option("--public", help="allow public use of a private model, with --with-token"),
    ] = False,
    with_token: Annotated[
        bool,
        Option(
            "--with-token",
            help="store your token as a secret of the Space, to read a private model; the Space "
            "is then private too, unless --public is given",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Create or update a Space that serves a model."""
    from hubnmt.hub.space import open_space

    if private and public:
        raise ConfigError("give --private or --public, not both")
    opened = open_space(repo, model, private=private, public=public, with_token=with_token)
    change = "updated" if opened.is_changed else "no changes"
    owner = repo.partition("/")[0]
    restricted = f"private: only {owner}, or the members of that organization, can use it"
    users = restricted if opened.is_private else "public: everybody can use it"
    sentence = f"{repo} serves {model}: {change}; {users}"
    _report(dataclasses.asdict(opened), sentence, result=opened.url, as_json=as_json)


def _report(facts: dict[str, Any], sentence: str, *, result: object, as_json: bool) -> None:
    if as_json:
        print(json.dumps(facts, ensure_ascii=False))
    else:
        print(sentence, file=sys.stderr)
        print(result)

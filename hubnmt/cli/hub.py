"""`hubnmt pull`, `push` and `space`: exchange models with the Hugging Face Hub.

Tokens come from `HF_TOKEN` or the stored login, never from the command line, where other users
could see them in the process list.
"""

import argparse
import dataclasses
import json
import sys
from typing import Any

from hubnmt.errors import ConfigError
from hubnmt.hub.pull import pull, pull_to
from hubnmt.hub.push import push
from hubnmt.hub.reference import parse_reference
from hubnmt.hub.space import open_space


def run_pull(options: argparse.Namespace) -> None:
    """Download a model and print its commit and folder."""
    reference = parse_reference(options.model)
    if reference is None:
        raise ConfigError(f"{options.model!r} must be USER/NAME or USER/NAME@REVISION")
    pulled = pull_to(reference, options.dir) if options.dir else pull(reference)
    facts = {"model": str(reference), "commit": pulled.commit, "folder": str(pulled.folder)}
    _report(facts, f"{reference} is commit {pulled.commit}", as_json=options.json)
    if not options.json:
        print(pulled.folder)


def run_push(options: argparse.Namespace) -> None:
    """Publish a folder and print its commit and URL."""
    pushed = push(
        options.dir,
        options.repo,
        private=options.private,
        revision=options.revision,
        create_pr=options.create_pr,
        message=options.message,
    )
    what = ", ".join(pushed.changed) or "no changes"
    summary = f"{options.repo} is commit {pushed.commit}: {what}"
    _report(dataclasses.asdict(pushed), summary, as_json=options.json)
    if not options.json:
        print(pushed.url)


def run_space(options: argparse.Namespace) -> None:
    """Create or update a Space and print its URL."""
    opened = open_space(
        options.repo,
        options.model,
        private=options.private,
        public=options.public,
        with_token=options.with_token,
    )
    n = len(opened.changed)
    change = f"{n} files changed" if n else "no changes"
    owner = options.repo.partition("/")[0]
    private = f"private: only {owner}, or the members of that organization, can use it"
    users = private if opened.is_private else "public: everybody can use it"
    summary = f"{options.repo} serves {options.model}: {change}; {users}"
    _report(dataclasses.asdict(opened), summary, as_json=options.json)
    if not options.json:
        print(opened.url)


def _report(facts: dict[str, Any], sentence: str, *, as_json: bool) -> None:
    """Print the facts as JSON to standard output, or the sentence to standard error."""
    if as_json:
        print(json.dumps(facts, ensure_ascii=False))
    else:
        print(sentence, file=sys.stderr)

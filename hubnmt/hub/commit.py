"""One commit that makes a repository hold what it should, or leaves it as it was.

Takes contents by name and what the Hub has now, gives the commit. Must not know models or Spaces.
Only what differs travels. The commit names its parent, so that two pushes at once cannot overwrite
each other; and when only the answer to a commit is lost, the Hub is asked whether it happened.
"""

import contextlib
import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

from hubnmt.hub.client import WAITS_S, HubFile, Kind, RepoState, patiently, pause, read_repo
from hubnmt.hub.digest import digest_bytes, matches
from hubnmt.hub.trouble import HTTP_ERROR, causes, is_unreachable

Content = Path | bytes


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What a repository should hold."""

    repo: str
    kind: Kind
    revision: str
    """The branch to commit to."""
    contents: Mapping[str, Content]
    """Name in the repository to a file or to its content."""
    unwanted: Sequence[str] = ()
    """Names that must not be there."""
    message: str
    create_pr: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Committed:
    """What became of a wish."""

    commit: str
    """The hash; the one before if nothing differed."""
    changed: tuple[str, ...]
    """Names sent or removed."""
    pull_request: str | None = None
    """Its address, if one was asked for."""


def commit(api: HfApi, wish: Wish, state: RepoState) -> Committed:
    """Make one commit of what differs; none if nothing does.

    Raises:
        HTTP_ERROR, OSError, RuntimeError: as the client does, if the commit did not happen.
    """
    sent, removed = differences(wish, state)
    changed = (*sent, *removed)
    if not changed:
        return Committed(commit=state.commit, changed=())
    others = _pull_requests(api, wish) if wish.create_pr else {}
    for wait in (*WAITS_S, None):
        try:
            return _send(api, wish, state, sent, removed)
        except (OSError, ValueError, RuntimeError, HTTP_ERROR) as error:
            if not _answer_was_lost(error):
                raise
            landed = _find_landed(api, wish, others)
            if landed is not None:
                return dataclasses.replace(landed, changed=changed)
            if wait is None:
                raise
            pause(wait)
    raise AssertionError("the last try returns or raises")


def differences(wish: Wish, state: RepoState) -> tuple[list[str], list[str]]:
    """List the names to send and those to remove."""
    sent = [
        name
        for name, content in wish.contents.items()
        if not _is_same(content, state.files.get(name))
    ]
    return sent, [name for name in wish.unwanted if name in state.files]


def _is_same(content: Content, there: HubFile | None) -> bool:
    """Compare by hash; the Hub states the one it files the content under."""
    if there is None or there.digest is None:
        return False
    if isinstance(content, bytes):
        return there.digest in digest_bytes(content).values()
    return content.stat().st_size == there.size and matches(content, there.digest)


def _send(
    api: HfApi, wish: Wish, state: RepoState, sent: Sequence[str], removed: Sequence[str]
) -> Committed:
    """Upload large files, then commit; the client's operations serve once."""
    additions = [CommitOperationAdd(name, wish.contents[name]) for name in sent]
    info = api.create_commit(
        wish.repo,
        [*additions, *map(CommitOperationDelete, removed)],
        commit_message=wish.message,
        repo_type=wish.kind,
        revision=wish.revision,
        create_pr=wish.create_pr,
        parent_commit=state.commit or None,
    )
    return Committed(commit=info.oid, changed=(*sent, *removed), pull_request=info.pr_url)


def _answer_was_lost(error: BaseException) -> bool:
    """Tell whether a commit may have happened though it failed, or was not tried for a hiccup.

    In all else the client has been patient itself.
    """
    for cause in causes(error):
        if isinstance(cause, json.JSONDecodeError):  # its check of the card reads no status
            return True
        with contextlib.suppress(RuntimeError, AttributeError):  # a request it never came to
            url = str(cause.request.url)  # type: ignore[attr-defined]  # of HTTP errors only
            return is_unreachable(cause) and "/commit/" in url
    return False


def _find_landed(api: HfApi, wish: Wish, others: Mapping[str, str]) -> Committed | None:
    """Look whether the Hub holds what was wished for."""
    if not wish.create_pr:
        state = read_repo(api, wish.repo, wish.revision, kind=wish.kind)
        done = differences(wish, state) == ([], [])
        return Committed(commit=state.commit, changed=()) if done else None
    for ref, oid in _pull_requests(api, wish).items():
        if ref in others:
            continue
        if differences(wish, read_repo(api, wish.repo, ref, kind=wish.kind)) == ([], []):
            url = f"{api.endpoint}/{wish.repo}/discussions/{ref.rpartition('/')[2]}"
            return Committed(commit=oid, changed=(), pull_request=url)
    return None


def _pull_requests(api: HfApi, wish: Wish) -> dict[str, str]:
    """Map the pull requests there are, such as `refs/pr/3`, to their commits."""
    refs = patiently(
        lambda: api.list_repo_refs(wish.repo, repo_type=wish.kind, include_pull_requests=True)
    )
    return {ref.ref: ref.target_commit for ref in refs.pull_requests or []}

"""Publish a model folder on the Hub in one atomic commit.

The folder is loaded for validation first, and only model files that differ are uploaded. A commit
names its parent, so that concurrent pushes cannot overwrite each other; if the response to a commit
is lost, the repository is checked for the change before a retry.
"""

import contextlib
import dataclasses
import json
import logging
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, ModelCard
from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

from hubnmt.checkpoint.card import CardFacts, address_card, write_card
from hubnmt.checkpoint.description import LIBRARY
from hubnmt.checkpoint.folder import StoredModel, load_model
from hubnmt.checkpoint.metadata import check_metadata
from hubnmt.errors import HubError, ModelFolderError, shorten
from hubnmt.hub.client import (
    WAITS_S,
    HubFile,
    Kind,
    RepoState,
    connect_to_write,
    pause,
    read_repo,
    readable_errors,
    retry,
)
from hubnmt.hub.errors import HTTP_ERROR, causes, is_unreachable
from hubnmt.hub.files import (
    ALLOWED,
    BOARD,
    CARD,
    CONFIG,
    MAX_BOARD_MIB,
    MAX_RECORD_MIB,
    METRICS,
    SAMPLES,
    WEIGHTS,
    digest_bytes,
    matches,
)
from hubnmt.hub.reference import COMMIT, MAIN, check_repo, check_revision
from hubnmt.text.normalization import normalize
from hubnmt.text.tokenizer import ROUND_TRIP

logger = logging.getLogger(__name__)

SECRET = re.compile(r"\bhf_[A-Za-z0-9]{30,}\b")
"""A Hub token, which must not be published by accident."""

Content = Path | bytes


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CommitRequest:
    """The desired contents of a repository."""

    repo: str
    kind: Kind
    revision: str
    """The branch to commit to."""
    contents: Mapping[str, Content]
    """Name in the repository to a local file or to bytes."""
    unwanted: Sequence[str] = ()
    """Files to remove."""
    message: str
    create_pr: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Committed:
    """The result of a commit request."""

    commit: str
    """Commit hash; that of the existing commit if nothing changed."""
    changed: tuple[str, ...]
    """Files uploaded or removed."""
    pull_request: str | None = None
    """URL of the pull request, if one was requested."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Pushed:
    """A published model."""

    url: str
    """URL of the repository or the pull request."""
    commit: str
    """Commit hash; that of the existing commit if nothing changed."""
    changed: tuple[str, ...]
    """Files uploaded or removed."""


def push(
    folder: str | os.PathLike[str],
    repo: str,
    *,
    private: bool = False,
    revision: str | None = None,
    create_pr: bool = False,
    message: str | None = None,
    token: str | None = None,
) -> Pushed:
    """Publish a model folder in one commit; unchanged files are not uploaded again.

    Args:
        folder: a model folder; other files in it are not uploaded.
        repo: `user/name`; created if missing.
        private: create a new repository as private; a public one is refused.
        revision: branch to push to, created if missing; defaults to `main`.
        create_pr: open a pull request instead of committing to the branch.
        message: commit message.
        token: defaults to `HF_TOKEN` or the stored login.

    Raises:
        ModelFolderError: if the folder is invalid; nothing was uploaded.
        HubError: if the Hub refuses or cannot be reached; the repository is unchanged.
    """
    check_repo(repo)
    _check_branch(revision, create_pr=create_pr)
    api = connect_to_write(token)
    contents = collect(Path(folder), repo)
    with readable_errors(repo):
        state = _prepare(api, repo, revision or MAIN, private=private)
        if private and not state.is_private:
            raise HubError(
                f"{repo} is public: make it private in its settings, or push to a new name"
            )
        _check_target(state, repo)
        request = CommitRequest(
            repo=repo,
            kind="model",
            revision=revision or MAIN,
            contents=contents,
            unwanted=[name for name in ALLOWED if name not in contents],
            message=message or "Push with hubnmt",
            create_pr=create_pr,
        )
        try:
            done = commit(api, request, state)
        except RevisionNotFoundError:  # readable, but not a branch
            raise HubError(f"{repo}: {request.revision!r} is a tag; name a branch") from None
    logger.info("%s: %s", repo, ", ".join(done.changed) or "no changes")
    url = done.pull_request or f"{api.endpoint}/{repo}"
    return Pushed(url=url, commit=done.commit, changed=done.changed)


def prepare_repo(repo: str, *, private: bool = False) -> None:
    """Check write access to a repository before a long job, creating it if missing.

    Args:
        repo: `user/name`.
        private: create a new repository as private; an existing one is not changed.

    Raises:
        HubError: if the Hub refuses or cannot be reached, or the repository has other content.
    """
    check_repo(repo)
    api = connect_to_write()
    with readable_errors(repo):
        _check_target(_prepare(api, repo, MAIN, private=private), repo)
        retry(lambda: api.auth_check(repo, write=True))


def _check_branch(revision: str | None, *, create_pr: bool) -> None:
    if revision is None:
        return
    if create_pr:
        raise HubError(
            "give a branch or a pull request, not both: the Hub opens pull requests against main"
        )
    check_revision(revision)
    if COMMIT.fullmatch(revision):
        raise HubError(
            f"revision = {revision!r} is a commit, which cannot be pushed to; name a branch"
        )


# --- contents of a push ---


def collect(folder: Path, repo: str) -> dict[str, Content]:
    """Validate a model folder and collect the files to upload.

    Returns:
        name in the repository to local file, or to bytes for the generated card.

    Raises:
        ModelFolderError: naming the file and the remedy.
    """
    if not folder.is_dir():
        raise ModelFolderError(f"{folder}: no such folder; save the model first")
    stored = load_model(folder)
    _check_tokenizers(stored, folder)
    names = [name for name in (*ALLOWED, BOARD) if _is_shared(folder / name, name)]
    for name in names:
        _check_link(folder / name)
        if name != WEIGHTS and SECRET.search((folder / name).read_text("utf-8", "replace")):
            raise ModelFolderError(f"{folder / name}: contains a Hub token; remove it first")
    contents: dict[str, Content] = {name: folder / name for name in names}
    contents[CARD] = _card(stored, repo, folder / CARD)
    sent = {Path(name).parts[0] for name in contents}
    left = sorted(path.name for path in folder.iterdir() if path.name not in sent)
    if left:
        logger.info("not uploaded: %s", ", ".join(left))
    return contents


def _is_shared(path: Path, name: str) -> bool:
    """Return whether a file exists; a record of training must also be within its limit."""
    limit = {METRICS: MAX_RECORD_MIB, SAMPLES: MAX_RECORD_MIB, BOARD: MAX_BOARD_MIB}.get(name)
    return path.is_file() and (limit is None or path.stat().st_size <= limit * 2**20)


def _check_tokenizers(stored: StoredModel, folder: Path) -> None:
    for tokenizer in (stored.tokenizers.src, stored.tokenizers.tgt):
        back = tokenizer.decode(tokenizer.encode(ROUND_TRIP))
        if back != normalize(ROUND_TRIP):
            raise ModelFolderError(
                f"{folder}: the tokenizer does not decode a text to its original ({back!r}); "
                "save the model again from the training run"
            )


def _check_link(path: Path) -> None:
    """Refuse links out of the folder, except those in the cache of `huggingface_hub`."""
    if not path.is_symlink():
        return
    folder = path.parent.resolve()
    homes = (folder, folder.parent.parent / "blobs")
    if not any((path.parent / path.readlink()).resolve().is_relative_to(home) for home in homes):
        raise ModelFolderError(f"{path}: a link to a file outside the folder; copy that file here")


def _card(stored: StoredModel, repo: str, path: Path) -> bytes:
    """Return the model card for the Hub, generating a minimal one if the folder has none."""
    text = stored.card
    if not text.strip():
        name = repo.partition("/")[2]
        text = write_card(CardFacts(name=name, title=name, config=stored.model.config))
    try:
        check_metadata(text)
        ModelCard(text)
    except Exception as error:  # the client's parser raises many kinds
        reason = shorten(error)
        raise ModelFolderError(
            f"{path}: {reason}; correct its YAML metadata, between the --- lines"
        ) from None
    return address_card(text, repo).encode()


# --- target repository ---


def _prepare(api: HfApi, repo: str, revision: str, *, private: bool) -> RepoState:
    """Return the state of the repository and branch, creating them if missing."""
    try:
        return read_repo(api, repo, revision)
    except RepositoryNotFoundError:
        retry(lambda: api.create_repo(repo, private=private or None, exist_ok=True))
    except RevisionNotFoundError:
        pass
    if revision != MAIN:
        retry(lambda: api.create_branch(repo, branch=revision, exist_ok=True))
    return read_repo(api, repo, revision)


def _check_target(state: RepoState, repo: str) -> None:
    """Check that the repository is empty or contains a hubnmt model.

    Raises:
        HubError: if it contains another model.
    """
    has_model = CONFIG in state.files or WEIGHTS in state.files
    if LIBRARY not in (state.library, *state.tags) and (state.library or has_model):
        kind = f"a model of the library {state.library!r}" if state.library else "another model"
        raise HubError(f"{repo} contains {kind}: push to a new name, or empty it first")


# --- commit ---


def commit(api: HfApi, request: CommitRequest, state: RepoState) -> Committed:
    """Commit the differences, if there are any.

    Raises:
        HTTP_ERROR, OSError, RuntimeError: as raised by the client, if the commit was not made.
    """
    sent, removed = differences(request, state)
    changed = (*sent, *removed)
    if not changed:
        return Committed(commit=state.commit, changed=())
    others = _pull_requests(api, request) if request.create_pr else {}
    for wait in (*WAITS_S, None):
        try:
            return _send(api, request, state, sent, removed)
        except (OSError, ValueError, RuntimeError, HTTP_ERROR) as error:
            if not _answer_was_lost(error):
                raise
            landed = _find_landed(api, request, others)
            if landed is not None:
                return dataclasses.replace(landed, changed=changed)
            if wait is None:
                raise
            pause(wait)
    raise AssertionError("the last attempt returns or raises")


def differences(request: CommitRequest, state: RepoState) -> tuple[list[str], list[str]]:
    """Return the names of the files to upload and to remove."""
    sent = [
        name
        for name, content in request.contents.items()
        if not _is_same(content, state.files.get(name))
    ]
    return sent, [name for name in request.unwanted if name in state.files]


def _is_same(content: Content, there: HubFile | None) -> bool:
    """Return whether content has the hash that the Hub states."""
    if there is None or there.digest is None:
        return False
    if isinstance(content, bytes):
        return there.digest in digest_bytes(content).values()
    return content.stat().st_size == there.size and matches(content, there.digest)


def _send(
    api: HfApi,
    request: CommitRequest,
    state: RepoState,
    sent: Sequence[str],
    removed: Sequence[str],
) -> Committed:
    """Upload and commit; the client's operation objects are created anew as they are single-use."""
    additions = [CommitOperationAdd(name, request.contents[name]) for name in sent]
    info = api.create_commit(
        request.repo,
        [*additions, *map(CommitOperationDelete, removed)],
        commit_message=request.message,
        repo_type=request.kind,
        revision=request.revision,
        create_pr=request.create_pr,
        parent_commit=state.commit or None,
    )
    return Committed(commit=info.oid, changed=(*sent, *removed), pull_request=info.pr_url)


def _answer_was_lost(error: BaseException) -> bool:
    """Return whether the commit request failed without a definite response.

    The commit may have been made, or a retry may succeed; all other requests the client retries.
    """
    for cause in causes(error):
        if isinstance(cause, json.JSONDecodeError):  # its validation of the card ignores the status
            return True
        with contextlib.suppress(RuntimeError, AttributeError):  # no request was sent
            url = str(cause.request.url)  # type: ignore[attr-defined]  # of HTTP errors only
            return is_unreachable(cause) and "/commit/" in url
    return False


def _find_landed(api: HfApi, request: CommitRequest, others: Mapping[str, str]) -> Committed | None:
    """Return the commit or pull request on the Hub that matches the request, if there is one."""
    if not request.create_pr:
        state = read_repo(api, request.repo, request.revision, kind=request.kind)
        done = differences(request, state) == ([], [])
        return Committed(commit=state.commit, changed=()) if done else None
    for ref, oid in _pull_requests(api, request).items():
        if ref in others:
            continue
        if differences(request, read_repo(api, request.repo, ref, kind=request.kind)) == ([], []):
            url = f"{api.endpoint}/{request.repo}/discussions/{ref.rpartition('/')[2]}"
            return Committed(commit=oid, changed=(), pull_request=url)
    return None


def _pull_requests(api: HfApi, request: CommitRequest) -> dict[str, str]:
    """Map the refs of existing pull requests, such as `refs/pr/3`, to their commits."""
    refs = retry(
        lambda: api.list_repo_refs(request.repo, repo_type=request.kind, include_pull_requests=True)
    )
    return {ref.ref: ref.target_commit for ref in refs.pull_requests or []}

"""Publish a model folder on the Hub, in one commit or not at all.

Before the first byte leaves, the folder is loaded as a user would load it, and only the files of a
model folder are looked at: run state, logs and data beside them stay here. Only what differs
travels. A commit names its parent, so that two pushes at once cannot overwrite each other; when
only the answer to a commit is lost, the Hub is asked whether it happened.
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
from hubnmt.checkpoint.folder import LIBRARY, StoredModel, load_model
from hubnmt.checkpoint.metadata import check_metadata
from hubnmt.errors import HubError, ModelFolderError, shorten
from hubnmt.hub.client import (
    HTTP_ERROR,
    WAITS_S,
    HubFile,
    Kind,
    RepoState,
    causes,
    connect,
    is_unreachable,
    pause,
    plain_words,
    read_repo,
    retry,
)
from hubnmt.hub.pull import ALLOWED, CARD, CONFIG, WEIGHTS, digest_bytes, matches
from hubnmt.hub.reference import COMMIT, MAIN, check_repo, check_revision
from hubnmt.text.tokenizer import ROUND_TRIP, normalize

logger = logging.getLogger(__name__)

SECRET = re.compile(r"\bhf_[A-Za-z0-9]{30,}\b")
"""A token of the Hub; one pasted into a card would be read by everyone."""

Content = Path | bytes


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CommitRequest:
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
    """What became of a request."""

    commit: str
    """The hash; the one before if nothing differed."""
    changed: tuple[str, ...]
    """Names sent or removed."""
    pull_request: str | None = None
    """Its address, if one was asked for."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Pushed:
    """A model on the Hub."""

    url: str
    """Where to look at it: the repository, or the pull request."""
    commit: str
    """The hash; of the commit before if nothing had changed."""
    changed: tuple[str, ...]
    """Names sent or removed."""


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
    """Publish a model folder in one commit; what the Hub has already does not travel again.

    Args:
        folder: a model folder; files of other kinds in it stay here.
        repo: `user/name`; made if it is not there.
        private: make a new repository private; one that is there stays as it is.
        revision: branch to push to, made if it is not there; None is `main`.
        create_pr: propose the change as a pull request in place of making it.
        message: of the commit.
        token: None takes `HF_TOKEN` or the login.

    Raises:
        ModelFolderError: if the folder is not sound; nothing was sent.
        HubError: if the Hub refuses or cannot be reached; the repository is as it was.
    """
    check_repo(repo)
    _check_branch(revision, create_pr=create_pr)
    contents = collect(Path(folder), repo)
    api = connect(token)
    with plain_words(repo):
        state = _prepare(api, repo, revision or MAIN, private=private)
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
        except RevisionNotFoundError:  # what could be looked at, but takes no commits
            raise HubError(f"{repo}: {request.revision!r} is a tag; name a branch") from None
    logger.info("%s: %s", repo, ", ".join(done.changed) or "nothing had changed")
    url = done.pull_request or f"{api.endpoint}/{repo}"
    return Pushed(url=url, commit=done.commit, changed=done.changed)


def prepare_repo(repo: str, *, private: bool = False, token: str | None = None) -> None:
    """Find out before long work whether `push` may write to a repository; make it if it is new.

    Args:
        repo: `user/name`.
        private: make a new repository private; one that is there stays as it is.
        token: None takes `HF_TOKEN` or the login.

    Raises:
        HubError: if the Hub refuses or cannot be reached, or the repository holds something else.
    """
    check_repo(repo)
    api = connect(token)
    with plain_words(repo):
        _check_target(_prepare(api, repo, MAIN, private=private), repo)
        retry(lambda: api.auth_check(repo, write=True))


def _check_branch(revision: str | None, *, create_pr: bool) -> None:
    if revision is None:
        return
    if create_pr:
        raise HubError(
            "give a branch or a pull request, not both: the Hub makes those against main"
        )
    check_revision(revision)
    if COMMIT.fullmatch(revision):
        raise HubError(f"revision = {revision!r} is a commit, which never changes; name a branch")


# --- what leaves ---


def collect(folder: Path, repo: str) -> dict[str, Content]:
    """Check a model folder as a whole and list what leaves it.

    Returns:
        name in the repository to file, or to content where that is written anew: the card.

    Raises:
        ModelFolderError: naming the file and the remedy.
    """
    if not folder.is_dir():
        raise ModelFolderError(f"{folder}: no such folder; save the model first")
    stored = load_model(folder)
    _check_tokenizers(stored, folder)
    names = [name for name in ALLOWED if (folder / name).is_file()]
    for name in names:
        _check_link(folder / name)
        if name != WEIGHTS and SECRET.search((folder / name).read_text("utf-8", "replace")):
            raise ModelFolderError(f"{folder / name}: holds a token of the Hub; take it out first")
    contents: dict[str, Content] = {name: folder / name for name in names}
    contents[CARD] = _card(stored, repo, folder / CARD)
    left = sorted(path.name for path in folder.iterdir() if path.name not in ALLOWED)
    if left:
        logger.info("stays here: %s", ", ".join(left))
    return contents


def _check_tokenizers(stored: StoredModel, folder: Path) -> None:
    for tokenizer in (stored.src_tokenizer, stored.tgt_tokenizer):
        back = tokenizer.decode(tokenizer.encode(ROUND_TRIP))
        if back != normalize(ROUND_TRIP):
            raise ModelFolderError(
                f"{folder}: the tokenizer does not give a text back as it was ({back!r}); "
                "save the model again from the run"
            )


def _check_link(path: Path) -> None:
    """Refuse a link that leads away, but for those of the cache of `huggingface_hub`."""
    if not path.is_symlink():
        return
    folder = path.parent.resolve()
    homes = (folder, folder.parent.parent / "blobs")
    if not any((path.parent / path.readlink()).resolve().is_relative_to(home) for home in homes):
        raise ModelFolderError(f"{path}: a link that leads out of the folder; copy the file here")


def _card(stored: StoredModel, repo: str, path: Path) -> bytes:
    """Return the card for the Hub; a folder without one gets what can be said of every model."""
    text = stored.card
    if not text.strip():
        name = repo.partition("/")[2]
        text = write_card(CardFacts(name=name, title=name, config=stored.model.config))
    try:
        check_metadata(text)
        ModelCard(text)
    except Exception as error:  # the client's own view of a card: its parser raises what it meets
        reason = shorten(error)
        raise ModelFolderError(f"{path}: {reason}; mend its head, between the --- lines") from None
    return address_card(text, repo).encode()


# --- where it goes ---


def _prepare(api: HfApi, repo: str, revision: str, *, private: bool) -> RepoState:
    """Look at the repository and the branch, making what is not there."""
    try:
        state = read_repo(api, repo, revision)
        if private and not state.is_private:
            logger.warning("%s is there and public: only a new repository is made private", repo)
        return state
    except RepositoryNotFoundError:
        retry(lambda: api.create_repo(repo, private=private or None, exist_ok=True))
    except RevisionNotFoundError:
        pass
    if revision != MAIN:
        retry(lambda: api.create_branch(repo, branch=revision, exist_ok=True))
    return read_repo(api, repo, revision)


def _check_target(state: RepoState, repo: str) -> None:
    """Refuse to write over what is not ours.

    Raises:
        HubError: with the remedy.
    """
    has_model = CONFIG in state.files or WEIGHTS in state.files
    if LIBRARY not in (state.library, *state.tags) and (state.library or has_model):
        kind = f"a model of the library {state.library!r}" if state.library else "another model"
        raise HubError(f"{repo} holds {kind}: push to a new name, or empty it first")


# --- one commit of what differs ---


def commit(api: HfApi, request: CommitRequest, state: RepoState) -> Committed:
    """Make one commit of what differs; none if nothing does.

    Raises:
        HTTP_ERROR, OSError, RuntimeError: as the client does, if the commit did not happen.
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
    raise AssertionError("the last try returns or raises")


def differences(request: CommitRequest, state: RepoState) -> tuple[list[str], list[str]]:
    """List the names to send and those to remove."""
    sent = [
        name
        for name, content in request.contents.items()
        if not _is_same(content, state.files.get(name))
    ]
    return sent, [name for name in request.unwanted if name in state.files]


def _is_same(content: Content, there: HubFile | None) -> bool:
    """Compare by hash; the Hub states the one it files the content under."""
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
    """Upload large files, then commit; the client's operations serve once."""
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


def _find_landed(api: HfApi, request: CommitRequest, others: Mapping[str, str]) -> Committed | None:
    """Look whether the Hub holds what was wished for."""
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
    """Map the pull requests there are, such as `refs/pr/3`, to their commits."""
    refs = retry(
        lambda: api.list_repo_refs(request.repo, repo_type=request.kind, include_pull_requests=True)
    )
    return {ref.ref: ref.target_commit for ref in refs.pull_requests or []}

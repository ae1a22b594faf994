"""Publish a model folder on the Hub in one commit.

The folder is loaded for validation first. A commit names its parent, so that concurrent pushes
cannot overwrite each other.
"""

import dataclasses
import math
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, ModelCard, SpaceInfo

from hubnmt.checkpoint.card import CardFacts, write_card
from hubnmt.checkpoint.files import (
    BOARD,
    CARD,
    LIMITS_MIB,
    MAX_BOARD_MIB,
    MODEL_FILES,
    WEIGHTS,
)
from hubnmt.checkpoint.folder import StoredModel, load_model
from hubnmt.checkpoint.metadata import check_metadata
from hubnmt.errors import HubError, ModelFolderError, shorten
from hubnmt.hub.client import RepoInfo, connect, open_repo, readable_errors

SECRET = re.compile(r"\bhf_[A-Za-z0-9]{30,}\b")
"""A Hub token, which must not be published by accident."""

Content = Path | bytes


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Pushed:
    """A published model."""

    url: str
    """URL of the repository or the pull request."""
    commit: str
    """Commit hash; that of the existing commit if nothing changed."""
    is_changed: bool
    """False if the repository was up to date."""
    is_private: bool
    """Whether only its owner, or the members of that organization, can use it."""


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
    """Publish the model files of a folder as `user/name`, which is created if missing.

    Unchanged files are not uploaded again. With `private` a public repository is refused;
    `revision` is a branch, created if missing; `create_pr` opens a pull request instead.

    Raises:
        ModelFolderError: if the folder is invalid; nothing was uploaded.
        HubError: if the Hub refuses or cannot be reached; the repository is unchanged, except if
            only the answer to the commit was lost: then the next push finds nothing to do.
    """
    if create_pr and revision is not None:
        raise HubError("give a branch or a pull request, not both: those of the Hub are for main")
    api = connect(token, write=True)
    contents = collect(Path(folder), repo)
    with readable_errors(repo):
        info = open_repo(api, repo, revision, private=private)
        return commit(
            api,
            info,
            contents,
            is_ours=MODEL_FILES.__contains__,
            message=message or "Push with hubnmt",
            revision=revision,
            create_pr=create_pr,
        )


def collect(folder: Path, repo: str) -> dict[str, Content]:
    """Validate a model folder and return what to upload, by name in the repository.

    Raises:
        ModelFolderError: naming the file and the remedy.
    """
    if not folder.is_dir():
        raise ModelFolderError(f"{folder}: no such folder; save the model first")
    stored = load_model(folder)
    contents: dict[str, Content] = {}
    for name, limit_mib in {**LIMITS_MIB, WEIGHTS: math.inf, BOARD: MAX_BOARD_MIB}.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size > limit_mib * 2**20:
            continue
        homes = (folder.resolve(), folder.resolve().parent.parent / "blobs")  # of the Hub's cache
        if not any(path.resolve().is_relative_to(home) for home in homes):
            raise ModelFolderError(f"{path}: a link to a file outside the folder; copy it here")
        if name != WEIGHTS and SECRET.search(path.read_text("utf-8", "replace")):
            raise ModelFolderError(f"{path}: contains a Hub token; remove it first")
        contents[name] = path
    contents[CARD] = _card(stored, repo, folder / CARD)
    return contents


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
        raise ModelFolderError(
            f"{path}: {shorten(error)}; correct its YAML metadata, between the --- lines"
        ) from None
    # The example names the repository instead of the folder.
    model = re.compile(r'(?<=from_pretrained\(")[^"\n]*(?="\))')
    return model.sub(lambda _: repo, text, count=1).encode()


def commit(
    api: HfApi,
    info: RepoInfo,
    contents: Mapping[str, Content],
    *,
    is_ours: Callable[[str], object],
    message: str,
    revision: str | None = None,
    create_pr: bool = False,
) -> Pushed:
    """Commit the differences to a repository, if there are any.

    The parent is the commit of `info`. Files of the repository that are not in `contents` are
    removed if they are `is_ours`.
    """
    added = [CommitOperationAdd(name, content) for name, content in contents.items()]
    present = {file.rfilename for file in info.siblings or ()}
    removed = [CommitOperationDelete(name) for name in present - {*contents} if is_ours(name)]
    done = api.create_commit(  # which leaves out files that have not changed
        info.id,
        [*added, *removed],
        commit_message=message,
        repo_type="space" if isinstance(info, SpaceInfo) else "model",
        revision=revision,
        create_pr=create_pr,
        parent_commit=info.sha,
    )
    return Pushed(
        url=done.pr_url or str(done.repo_url),
        commit=done.oid,
        is_changed=done.oid != info.sha,
        is_private=bool(info.private),
    )

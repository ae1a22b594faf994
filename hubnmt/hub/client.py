"""The client of the Hub, with the user's token; repositories there and in its cache."""

from pathlib import Path
from typing import Literal

from huggingface_hub import (
    HfApi,
    ModelInfo,
    SpaceInfo,
    constants,
    get_token,
    snapshot_download,
)
from huggingface_hub.errors import (
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from hubnmt.checkpoint.description import LIBRARY
from hubnmt.errors import HubError
from hubnmt.hub.errors import LOGIN
from hubnmt.hub.files import ALLOWED, check_files
from hubnmt.hub.reference import COMMIT, MAIN, HubReference

TIMEOUT_S = 20.0
"""Timeout of a request for metadata."""

Kind = Literal["model", "space"]
RepoInfo = ModelInfo | SpaceInfo


def connect(token: str | None = None, *, write: bool = False) -> HfApi:
    """Return a client for the Hub at `HF_ENDPOINT`; `token` defaults to the stored login.

    Raises:
        HubError: without showing the token, if it is missing for `write` or has other characters.
    """
    sent = token or get_token() or ""
    if write and not sent:
        raise HubError(
            "there is no token for the Hub: create one that can write at "
            f"{constants.ENDPOINT}/settings/tokens, then {LOGIN}"
        )
    if not (sent.isascii() and sent.isprintable()) or " " in sent:
        raise HubError("the token has spaces or other invalid characters: copy it again")
    return HfApi(token=token)


def read_repo(api: HfApi, repo: str, revision: str, *, kind: Kind = "model") -> RepoInfo:
    """Request the commit of a repository, its tags, and its files with sizes.

    Called within `readable_errors`, as it raises the client's exceptions.
    """
    request = api.space_info if kind == "space" else api.model_info
    info = request(repo, revision=revision, files_metadata=True, timeout=TIMEOUT_S)
    if not COMMIT.fullmatch(str(info.sha)):
        raise ValueError("the Hub states no commit")  # it becomes part of a path
    return info


def open_repo(
    api: HfApi, repo: str, branch: str, *, kind: Kind = "model", private: bool
) -> RepoInfo:
    """Read a repository as `read_repo` does, creating it and the branch if missing."""
    try:
        return read_repo(api, repo, branch, kind=kind)
    except RepositoryNotFoundError:
        sdk = "gradio" if kind == "space" else None
        api.create_repo(repo, repo_type=kind, space_sdk=sdk, private=private or None, exist_ok=True)
    except RevisionNotFoundError:
        pass
    if branch != MAIN:
        api.create_branch(repo, repo_type=kind, branch=branch, exist_ok=True)
    return read_repo(api, repo, branch, kind=kind)


def check_model(info: RepoInfo, target: str) -> dict[str, int | None]:
    """Check a repository by `check_files`, and return its files with their sizes."""
    sizes = {file.rfilename: file.size for file in info.siblings or ()}
    library = None if LIBRARY in (info.tags or ()) else getattr(info, "library_name", None)
    check_files(sizes, target=target, library=library)
    return sizes


def find_cached(reference: HubReference, *, cache_dir: str | Path | None = None) -> Path | None:
    """Return the folder of a complete model in the cache; it is named by the commit."""
    try:
        folder = Path(
            snapshot_download(
                reference.repo,
                revision=reference.revision,
                cache_dir=cache_dir,
                allow_patterns=ALLOWED,
                local_files_only=True,
            )
        )
        check_files({path.name: path.stat().st_size for path in folder.iterdir()}, target="")
    except (LocalEntryNotFoundError, HubError):
        return None
    return folder

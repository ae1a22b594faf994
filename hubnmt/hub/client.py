"""The client of the Hub: references, the user's token, repositories, exceptions as one line.

A reference is `user/name` or `user/name@revision`. The line of an exception names the cause and the
remedy, and never contains a token. Naming rules of repositories:
https://huggingface.co/docs/huggingface_hub/package_reference/utilities
"""

import dataclasses
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from huggingface_hub import HfApi, ModelInfo, SpaceInfo, constants, get_token
from huggingface_hub.errors import (
    FileMetadataError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from hubnmt.checkpoint.files import LIBRARY
from hubnmt.errors import HubError, HubNMTError, HubUnreachableError, shorten

NAME = r"\w(?:[\w.-]{0,94}\w)?"
REPO = re.compile(rf"(?!.*(?:--|\.\.)){NAME}/{NAME}(?<!\.git)", re.ASCII)
REVISION = re.compile(r"(?!.*\.\.)(?=.{1,200}$)[\w+][\w.+-]*(?:/[\w+][\w.+-]*)*", re.ASCII)
COMMIT = re.compile(r"[0-9a-f]{40}")

TIMEOUT_S = 20.0
"""Timeout of a request for metadata."""

TOKEN = re.compile(r"hf_\w{8,}|Bearer\s+\S+")
LOGIN = "set HF_TOKEN or run `hf auth login`"

Kind = Literal["model", "space"]
RepoInfo = ModelInfo | SpaceInfo


@dataclasses.dataclass(frozen=True, slots=True)
class HubReference:
    """A repository at a revision."""

    repo: str
    """`user/name`."""
    revision: str = "main"
    """Branch, tag, commit hash or `refs/pr/N`."""

    @property
    def is_pinned(self) -> bool:
        """Whether the revision is a commit hash."""
        return COMMIT.fullmatch(self.revision) is not None

    def __str__(self) -> str:
        """Return `user/name@revision`, without `@main`."""
        return self.repo if self.revision == "main" else f"{self.repo}@{self.revision}"


def parse_reference(text: str) -> HubReference | None:
    """Parse `user/name[@revision]`; None if the text has another form.

    Raises:
        HubError: if the revision is not a valid git ref name.
    """
    repo, at, revision = text.partition("@")
    if not REPO.fullmatch(repo) or (at and not revision):
        return None
    if at and not REVISION.fullmatch(revision):
        raise HubError(f"{revision!r} is not a valid branch or tag; use letters, digits, . _ - + /")
    return HubReference(repo, revision) if at else HubReference(repo)


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


def read_repo(
    api: HfApi, repo: str, revision: str | None = None, *, kind: Kind = "model"
) -> RepoInfo:
    """Request the commit of a repository, its tags, and its files with sizes.

    Called within `readable_errors`, as it raises the client's exceptions.
    """
    info: Any = api.repo_info(
        repo, repo_type=kind, revision=revision, files_metadata=True, timeout=TIMEOUT_S
    )
    if not COMMIT.fullmatch(str(info.sha)):
        raise ValueError("the Hub states no commit")  # it becomes part of a path
    return info  # type: ignore[no-any-return]  # of a model or a Space, as asked


def open_repo(
    api: HfApi, repo: str, branch: str | None = None, *, kind: Kind = "model", private: bool
) -> RepoInfo:
    """Create a repository and a branch of it if they are missing, and read it as `read_repo` does.

    Raises:
        HubError: if its name is not `user/name`, it has other content than hubnmt's, or it should
            be `private` and is public.
    """
    if not REPO.fullmatch(repo):
        raise HubError(f"{repo!r} must be USER/NAME, of letters, digits and . _ - only")
    sdk = "gradio" if kind == "space" else None
    api.create_repo(repo, repo_type=kind, space_sdk=sdk, private=private or None, exist_ok=True)
    if branch:
        api.create_branch(repo, repo_type=kind, branch=branch, exist_ok=True)
    info = read_repo(api, repo, branch, kind=kind)
    library = getattr(info, "library_name", None)
    names = {file.rfilename for file in info.siblings or ()} - {".gitattributes", "README.md"}
    if LIBRARY not in (library, *(info.tags or ())) and (library or names):
        raise HubError(f"{kind} {repo} has other content: choose a new name, or empty it first")
    if private and not info.private:
        raise HubError(f"{kind} {repo} is public: make it private first, or choose a new name")
    return info


# --- exceptions ---

HTTP_ERROR = next(base for base in HfHubHTTPError.__mro__ if base.__name__ == "HTTPError")
"""Base class of the errors of the HTTP library that `huggingface_hub` uses."""

NOT_A_HUB = (json.JSONDecodeError, FileMetadataError)
NO_ANSWER = (HTTP_ERROR, LocalEntryNotFoundError)
UNREACHABLE = {OfflineModeIsEnabled, NOT_A_HUB, NO_ANSWER, 429, 500}
"""Keys of `MESSAGES` for a Hub that does not answer, as opposed to one that refuses."""

MESSAGES: dict[Any, str] = {
    OfflineModeIsEnabled: "HF_HUB_OFFLINE is set, so the Hub is not contacted: unset it to go "
    "online",
    NOT_A_HUB: "{endpoint} did not respond like a Hub: check HF_ENDPOINT, or try again later",
    GatedRepoError: "{repo} is gated: ask for access at {endpoint}/{repo} while logged in, "
    f"then provide your token ({LOGIN})",
    RepositoryNotFoundError: "there is no folder {repo!r} here and no {repo!r} on {endpoint}, or "
    "it is private: check the spelling; for a private one provide a token that may read it "
    f"({LOGIN})",
    RevisionNotFoundError: "{target}: no such branch, tag or commit; {endpoint}/{repo}/tree/main "
    "lists them all",
    401: "the Hub does not accept this token: create one at {endpoint}/settings/tokens, "
    f"then {LOGIN}",
    403: "the Hub forbids this for {target}: your token needs the permission "
    "({endpoint}/settings/tokens), and your user a role in that account",
    412: "{target} was changed by another push; nothing was overwritten: check that change, then "
    "push again",
    429: "too many requests to the Hub (429): try again {pause}; a token raises the limit",
    500: "the Hub has a server error ({status}): try again {pause}",
    HfHubHTTPError: "{target}: the Hub refused ({status}: {reason})",
    NO_ANSWER: "cannot reach {endpoint} for {target} ({name}): check the network, proxy and "
    "HF_ENDPOINT, then try again; cached models work offline (HF_HUB_OFFLINE=1)",
    OSError: "{target}: cannot use {path} ({reason}); free disk space, choose another folder, or "
    "set HF_HOME",
}
"""Messages by classes or HTTP status, of which the first that fits is shown; 500 is all above."""


@contextmanager
def readable_errors(target: str) -> Iterator[None]:
    """Convert exceptions of the client to a `HubError` about `target`, such as `user/name@v1`.

    The original is not chained, because its traceback may show the request and its token.
    """
    try:
        yield
    except HubNMTError:
        raise
    except Exception as error:
        raise _explain(error, target) from None


def _explain(error: BaseException, target: str) -> HubError:
    causes = [error]  # the client wraps some
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    for cause in sorted(causes, key=lambda cause: isinstance(cause, LocalEntryNotFoundError)):
        for key, message in MESSAGES.items():
            if _fits(key, cause):
                kind = HubUnreachableError if key in UNREACHABLE else HubError
                return kind(message.format(**_facts(cause, target)))
    return HubError(f"{target}: {_mask(error)}; try again, or check the metadata in its README.md")


def _fits(key: Any, error: BaseException) -> bool:
    if isinstance(key, int):
        return isinstance(error, HfHubHTTPError) and min(error.response.status_code, 500) == key
    return isinstance(error, key) and (key is not OSError or error.errno is not None)


def _facts(error: BaseException, target: str) -> dict[str, Any]:
    """Return the values of the messages."""
    facts: dict[str, Any] = {
        "target": target,
        "repo": target.split("@")[0],
        "endpoint": constants.ENDPOINT,
        "name": type(error).__name__,
        "reason": _mask(error),
    }
    if isinstance(error, HfHubHTTPError):
        wait = error.response.headers.get("Retry-After") or ""
        facts["status"] = error.response.status_code
        facts["pause"] = f"after {wait} s" if wait.isdigit() else "later"
        facts["reason"] = _mask(error.server_message or "no reason given")
    elif isinstance(error, OSError):
        facts["path"] = error.filename2 or error.filename or "the disk"
        facts["reason"] = (error.strerror or type(error).__name__).lower()
    return facts


def _mask(error: object) -> str:
    return TOKEN.sub("hf_***", shorten(error))

"""HTTP client of the Hub: endpoint, token, retries, repository metadata, downloads, errors.

Reads the same environment variables as `huggingface_hub` (`HF_ENDPOINT`, `HF_TOKEN`,
`HF_HUB_OFFLINE`). That library (2.4) does not retry metadata requests and commits, but lists up to
six times; the retries here treat all requests alike. Error messages never contain a token.
"""

import dataclasses
import errno
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, BinaryIO, Literal, TypeVar, cast
from urllib.parse import parse_qs, urlsplit

import huggingface_hub
from huggingface_hub import HfApi, get_session, get_token, hf_hub_url
from huggingface_hub.errors import (
    EntryNotFoundError,
    FileMetadataError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import (  # type: ignore[attr-defined]  # documented, not marked so
    build_hf_headers,
    hf_raise_for_status,
    tqdm,
)

from hubnmt.errors import HubError, HubNMTError, HubUnreachableError
from hubnmt.hub.reference import COMMIT


def find_http_error(theirs: type[Exception]) -> type[Exception]:
    """Return the error base class of the HTTP library that `huggingface_hub` uses (httpx in 1.x).

    Args:
        theirs: an error class of the client; returned itself if it has no such base class.
    """
    found = (base for base in theirs.__mro__ if base.__name__ == "HTTPError")
    return cast("type[Exception]", next(found, theirs))


HTTP_ERROR = find_http_error(HfHubHTTPError)

TRANSIENT = {408, 429, 500, 502, 503, 504}
"""Status codes after which a retry may succeed."""

INVALID_RESPONSE = (json.JSONDecodeError, FileMetadataError)
"""Errors that the client raises for a response that does not follow the Hub's API."""

TOKEN = re.compile(r"hf_\w{8,}|Bearer\s+\S+")
LOGIN = "set HF_TOKEN or run `hf auth login`"

WAITS_S = (1.0, 3.0)
"""Delays before the second and the third attempt."""
LONGEST_WAIT_S = 30.0
"""Longest `Retry-After` that is waited for; beyond it the error states the delay."""
TIMEOUT_S = 20.0
"""Timeout of metadata requests."""

SLOW_AFTER_S, LEAST_BYTES_PER_S = 60.0, 10_000
"""A download with a lower average rate after this time is aborted."""
PARTIAL = 206
"""HTTP status of a range response."""
SHOWN_BYTES = 10**6
"""Downloads from this size on show a progress bar."""

CONNECTION_ERRORS = {"ConnectError", "ConnectTimeout"}
"""Names of errors that are not retried: no network or a wrong address."""

Kind = Literal["model", "space"]
HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
"""Content hashes of the Hub: git's SHA-1 of the blob, or the SHA-256 of an LFS file."""
MAX_SIZE = 2**63

_Answer = TypeVar("_Answer")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class HubFile:
    """A file in a repository; None where the Hub states no valid size or hash."""

    name: str
    size: int | None
    digest: str | None
    """Content hash, see `HASH`."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RepoState:
    """The contents of a repository at a revision."""

    commit: str
    files: Mapping[str, HubFile]
    library: str | None = None
    tags: tuple[str, ...] = ()
    is_private: bool = False
    is_gated: bool = False


def connect(token: str | None = None) -> HfApi:
    """Return a client for the Hub at `HF_ENDPOINT`.

    Args:
        token: defaults to `HF_TOKEN` or the stored login.

    Raises:
        HubError: if the token has invalid characters; the message does not show it.
    """
    sent = token or get_token() or ""
    if not (sent.isascii() and sent.isprintable()) or " " in sent:
        raise HubError("the token has spaces or other invalid characters: copy it again")
    return HfApi(endpoint=endpoint(), token=token)


def endpoint() -> str:
    """Return the URL of the Hub, or of the mirror in `HF_ENDPOINT`.

    Raises:
        HubError: if that is not a URL.
    """
    address = os.environ.get("HF_ENDPOINT", "").rstrip("/")
    if address and not re.match(r"https?://[^/\s]", address):
        raise HubError(f"HF_ENDPOINT={address!r} is not a URL: it must begin with https://")
    return address or huggingface_hub.constants.ENDPOINT


def is_offline() -> bool:
    """Return whether `HF_HUB_OFFLINE` is set."""
    return huggingface_hub.constants.HF_HUB_OFFLINE


@contextmanager
def plain_words(target: str) -> Iterator[None]:
    """Convert exceptions of the client to a `HubError` about `target`.

    The original is not chained, because its traceback may show the request and its token.
    """
    try:
        yield
    except HubNMTError:
        raise
    except (OSError, RuntimeError, ValueError, HTTP_ERROR) as error:
        raise explain(error, target=target, endpoint=endpoint()) from None


def retry(call: Callable[[], _Answer]) -> _Answer:
    """Make an idempotent call and retry it on transient errors."""
    for wait in WAITS_S:
        try:
            return call()
        except (OSError, HTTP_ERROR) as error:
            seconds = _wait_before_next(error, wait)
            if seconds is None:
                raise
            pause(seconds)
    return call()


# --- repository metadata ---


def read_repo(api: HfApi, repo: str, revision: str, *, kind: Kind = "model") -> RepoState:
    """Request the commit of a repository and its files with sizes and hashes.

    The response is validated, because commit and file hashes become parts of paths.

    Raises:
        HubError: if the response is invalid, as for some malformed model cards.
        HTTP_ERROR, OSError, RuntimeError, ValueError: as raised by the client.
    """
    try:
        return _read_state(
            retry(
                lambda: api.repo_info(
                    repo, repo_type=kind, revision=revision, files_metadata=True, timeout=TIMEOUT_S
                )
            )
        )
    except (HTTP_ERROR, OSError, RuntimeError, ValueError):
        raise
    except Exception as error:  # the client does not validate the types
        raise HubError(
            f"the metadata of {repo} cannot be read ({type(error).__name__}): probably the "
            "YAML header of its README.md is invalid; its owner can correct it on the Hub"
        ) from None


def _read_state(info: Any) -> RepoState:
    """Convert the client's response, ignoring optional fields of a wrong type.

    Raises:
        TypeError: if the commit or the list of files is missing or invalid.
    """
    if not (isinstance(info.sha, str) and COMMIT.fullmatch(info.sha)):
        raise TypeError("the commit is not a hash")
    names = [sibling.rfilename for sibling in info.siblings]
    if not all(isinstance(name, str) for name in names):
        raise TypeError("a file name is not a string")
    library = getattr(info, "library_name", None)
    tags = info.tags if isinstance(info.tags, list) else []
    return RepoState(
        commit=info.sha,
        files={each.rfilename: _read_file(each) for each in info.siblings},
        library=library if isinstance(library, str) else None,
        tags=tuple(tag for tag in tags if isinstance(tag, str)),
        is_private=bool(info.private),
        is_gated=bool(getattr(info, "gated", False)),
    )


def _read_file(sibling: Any) -> HubFile:
    size, digest = sibling.size, sibling.lfs.sha256 if sibling.lfs else sibling.blob_id
    is_hash = isinstance(digest, str) and HASH.fullmatch(digest)
    return HubFile(
        name=sibling.rfilename,
        size=size if type(size) is int and 0 <= size < MAX_SIZE else None,
        digest=digest if is_hash else None,
    )


# --- downloads and listings ---


def download(
    api: HfApi, repo: str, commit: str, name: str, sink: BinaryIO, *, max_bytes: int
) -> None:
    """Download a file of a repository, resuming after a broken connection.

    The client's own download is not used: it names cache files by the ETag of the response, which
    could contain a path outside the cache, and it does not limit the size.

    Args:
        api: client.
        repo: `user/name`.
        commit: commit hash.
        name: file name.
        sink: an empty file to write to.
        max_bytes: size limit.

    Raises:
        HubError: if the file exceeds the limit or the download is too slow.
        HTTP_ERROR, OSError: if the download fails.
    """
    url = hf_hub_url(repo, name, revision=commit, endpoint=api.endpoint)
    began = time.monotonic()
    hidden = None if max_bytes >= SHOWN_BYTES else True  # None: hidden without a terminal
    with tqdm(  # type: ignore[no-untyped-call]  # theirs has no types
        total=max_bytes, unit="B", unit_scale=True, desc=name, disable=hidden
    ) as progress:
        while True:
            before = sink.tell()
            try:
                retry(partial(_stream, api, url, sink, max_bytes, began, progress))
            except (OSError, HTTP_ERROR):
                if sink.tell() <= before:
                    raise
            else:
                return


def _stream(
    api: HfApi, url: str, sink: BinaryIO, max_bytes: int, began: float, progress: Any
) -> None:
    """Download the remainder of a file."""
    start = sink.tell()
    if start == max_bytes:
        return
    headers = build_hf_headers(token=api.token) | {"Accept-Encoding": "identity"}
    headers |= {"Range": f"bytes={start}-"} if start else {}
    timeout = huggingface_hub.constants.HF_HUB_DOWNLOAD_TIMEOUT
    with get_session().stream("GET", url, headers=headers, timeout=timeout) as answer:
        hf_raise_for_status(answer)
        if answer.status_code != PARTIAL:
            sink.seek(0)
            sink.truncate()
        for piece in answer.iter_raw():  # raw: no decompression
            sink.write(piece)
            progress.update(sink.tell() - progress.n)
            if sink.tell() > max_bytes:
                raise HubError(f"{url} is larger than the Hub states ({max_bytes:,} bytes)")
            elapsed = time.monotonic() - began
            if elapsed > SLOW_AFTER_S and sink.tell() < elapsed * LEAST_BYTES_PER_S:
                raise HubError(f"{url}: the download was too slow and was aborted: try again")


def read_pages(api: HfApi, path: str, query: Mapping[str, Any]) -> Iterator[list[Any]]:
    """Request a paginated list, one page per iteration.

    The client's own pagination retries for half a minute without a network. Only the query of the
    link to the next page is used, so that the token is sent to this host only.

    Raises:
        HubError: if the response is not a list.
        HTTP_ERROR, OSError, ValueError: as raised by the client.
    """
    while query:
        answer = retry(partial(_get, api, path, query))
        rows = answer.json()
        if not isinstance(rows, list):
            raise HubError(f"{api.endpoint} did not respond like a Hub: check HF_ENDPOINT")
        yield rows
        query = parse_qs(urlsplit(answer.links.get("next", {}).get("url", "")).query)


def _get(api: HfApi, path: str, query: Mapping[str, Any]) -> Any:
    headers = build_hf_headers(token=api.token)
    address = f"{api.endpoint}{path}"
    answer = get_session().get(address, params=dict(query), headers=headers, timeout=TIMEOUT_S)
    hf_raise_for_status(answer)
    return answer


def pause(seconds: float) -> None:
    """Sleep before the next attempt."""
    time.sleep(seconds)


def _wait_before_next(error: BaseException, wait: float) -> float | None:
    """Return the delay before the next attempt in seconds; None if a retry would not help."""
    if isinstance(error, LocalEntryNotFoundError) or not is_unreachable(error):
        return None  # the former is raised after the client's own retries
    if is_offline() or type(error).__name__ in CONNECTION_ERRORS:
        return None
    if isinstance(error, HfHubHTTPError):
        asked = error.response.headers.get("Retry-After") or ""
        seconds = float(asked) if asked.isdigit() else wait
        return seconds if seconds <= LONGEST_WAIT_S else None
    return wait


# --- error messages ---


def explain(error: BaseException, *, target: str, endpoint: str) -> HubError:
    """Convert an exception to an error with a message for the user.

    Args:
        error: the original exception.
        target: the requested object, such as `user/name@v1`.
        endpoint: URL of the Hub.
    """
    for cause in causes(error):
        sentence = _explain_refusal(cause, target, endpoint)
        if sentence:
            return HubError(sentence)
        if is_unreachable(cause):
            return HubUnreachableError(_explain_unreachable(cause, endpoint))
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            return HubError(
                f"no space left on the disk for {target}: free disk space and try again"
            )
        if isinstance(cause, OSError) and cause.filename is not None:
            return HubError(_explain_disk(cause, target))
    if isinstance(error, LocalEntryNotFoundError):
        return HubUnreachableError(_explain_unreachable(error, endpoint))
    if "xet" in str(error).lower():
        return HubError(
            f"{target}: the Xet storage of {endpoint} cannot be used, a mirror may not have it: "
            "set HF_HUB_DISABLE_XET=1 and try again"
        )
    return HubError(f"{target}: {_first_line(error)}; try again")


def is_unreachable(error: BaseException) -> bool:
    """Return whether the Hub was unreachable or failed, rather than refused the request."""
    if isinstance(error, HfHubHTTPError):
        return error.response.status_code in TRANSIENT
    unreachable = (HTTP_ERROR, OfflineModeIsEnabled, *INVALID_RESPONSE)
    return isinstance(error, unreachable) or _is_short(error)


def _is_short(error: BaseException) -> bool:
    """Return whether a download ended early, for which the client raises a plain OSError."""
    return isinstance(error, OSError) and "Consistency check failed" in str(error)


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and its chain of causes, because the client wraps some."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__


def _explain_refusal(error: BaseException, target: str, endpoint: str) -> str | None:
    """Describe a refusal by the Hub; None for any other error."""
    repo = target.split("@")[0]
    if isinstance(error, GatedRepoError):
        return (
            f"{repo} is gated: ask for access at {endpoint}/{repo} while logged in, "
            f"then provide your token ({LOGIN})"
        )
    if isinstance(error, RepositoryNotFoundError):
        return (
            f"there is no folder {repo!r} here and no {repo!r} on {endpoint}, or it is private: "
            f"check the spelling; for a private one provide a token that may read it ({LOGIN})"
        )
    if isinstance(error, RevisionNotFoundError):
        return (
            f"{target}: no such branch, tag or commit; {endpoint}/{repo}/tree/main lists them all"
        )
    if isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError):
        return f"{target}: a file of the model was not found; pull again, or contact its owner"
    return _explain_status(error, target, endpoint) if isinstance(error, HfHubHTTPError) else None


def _explain_status(error: HfHubHTTPError, target: str, endpoint: str) -> str | None:
    status = error.response.status_code
    sentences = {
        401: f"the Hub does not accept this token: create one at {endpoint}/settings/tokens, "
        f"then {LOGIN}",
        403: f"the Hub forbids this for {target}: your token needs the permission "
        f"({endpoint}/settings/tokens), and your user a role in that account",
        404: f"{target} was not found on {endpoint}: check the spelling and HF_ENDPOINT",
        409: f"{target} is being modified by someone else: try again",
        412: f"{target} was changed by another push; nothing was overwritten: "
        "check that change, then push again",
        413: f"{target}: a file is too large for the Hub",
    }
    if status in TRANSIENT:
        return None
    reason = _first_line(error.server_message or "no reason given")
    return sentences.get(status, f"{target}: the Hub refused ({status}: {reason})")


def _explain_unreachable(error: BaseException, endpoint: str) -> str:
    if isinstance(error, OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set, so the Hub is not contacted: unset it to go online"
    if isinstance(error, HfHubHTTPError):
        status = error.response.status_code
        if status == 429:
            wait = error.response.headers.get("Retry-After")
            pause = f"{wait} s" if wait and wait.isdigit() else "a few minutes"
            return (
                f"too many requests to the Hub (429): wait {pause} and try again; "
                f"with a token the limit is higher ({LOGIN})"
            )
        return f"the Hub at {endpoint} has a server error ({status}): try again later"
    if _is_short(error):
        return f"the download from {endpoint} was interrupted: try again"
    if isinstance(error, INVALID_RESPONSE):
        return f"{endpoint} did not respond like a Hub: check HF_ENDPOINT, or try again later"
    return (
        f"cannot reach {endpoint} ({type(error).__name__}): check the network, proxy and "
        "HF_ENDPOINT, then try again; cached models work offline (HF_HUB_OFFLINE=1)"
    )


def _explain_disk(error: OSError, target: str) -> str:
    where = error.filename2 or error.filename
    reason = (error.strerror or type(error).__name__).lower()
    return f"{target}: cannot use {where} ({reason}); choose another folder, or set HF_HOME"


def _first_line(error: object) -> str:
    """Return the first line of a message, shortened and without tokens."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return hide_tokens(lines[0] if lines else type(error).__name__)[:300]


def hide_tokens(text: str) -> str:
    """Mask everything that looks like a token."""
    return TOKEN.sub("hf_***", text)

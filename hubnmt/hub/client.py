"""HTTP client of the Hub: endpoint, token, retries, repository metadata, downloads.

Reads the same environment variables as `huggingface_hub` (`HF_ENDPOINT`, `HF_TOKEN`,
`HF_HUB_OFFLINE`). That library (2.4) does not retry metadata requests and commits, but lists up to
six times; the retries here treat all requests alike.
"""

import dataclasses
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, BinaryIO, Literal, TypeVar
from urllib.parse import parse_qs, urlsplit

import huggingface_hub
from huggingface_hub import HfApi, get_session, get_token, hf_hub_url
from huggingface_hub.errors import (
    HfHubHTTPError,
    LocalEntryNotFoundError,
)
from huggingface_hub.utils import (  # type: ignore[attr-defined]  # documented, not marked so
    build_hf_headers,
    hf_raise_for_status,
    tqdm,
)

from hubnmt.errors import HubError, HubNMTError
from hubnmt.hub.errors import HTTP_ERROR, LOGIN, explain, is_unreachable
from hubnmt.hub.reference import COMMIT

WAITS_S = (1.0, 3.0)
"""Delays before the second and the third attempt."""
MAX_RETRY_WAIT_S = 30.0
"""Longest `Retry-After` that is waited for; beyond it the error states the delay."""
TIMEOUT_S = 20.0
"""Timeout of metadata requests."""

SLOW_AFTER_S, MIN_BYTES_PER_S = 60.0, 10_000
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


def connect_to_write(token: str | None = None) -> HfApi:
    """Return a client as `connect` does, for requests that need a token.

    Raises:
        HubError: if there is no token, or it has invalid characters.
    """
    if not (token or get_token()):
        raise HubError(
            f"there is no token for the Hub: create one that can write at "
            f"{endpoint()}/settings/tokens, then {LOGIN}"
        )
    return connect(token)


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
def readable_errors(target: str) -> Iterator[None]:
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
            if elapsed > SLOW_AFTER_S and sink.tell() < elapsed * MIN_BYTES_PER_S:
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
        return seconds if seconds <= MAX_RETRY_WAIT_S else None
    return wait

"""HTTP client of the Hub: address, token, retries, what a repository holds, downloads, errors.

The environment is read as `huggingface_hub` does (`HF_ENDPOINT`, `HF_TOKEN`, `HF_HUB_OFFLINE`).
That library (2.4) tries requests about repositories once and lists six times, and does not repeat a
commit; the retries here make all of them alike. No token ever appears in an error.
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
    """Find what the HTTP library under `huggingface_hub` raises: httpx in 1.x, another one in 2.x.

    Args:
        theirs: the client's own error, which inherits from it; itself if a later one does not.
    """
    found = (base for base in theirs.__mro__ if base.__name__ == "HTTPError")
    return cast("type[Exception]", next(found, theirs))


HTTP_ERROR = find_http_error(HfHubHTTPError)

TRANSIENT = {408, 429, 500, 502, 503, 504}
"""Answers after which the same request may succeed."""

NO_HUB = (json.JSONDecodeError, FileMetadataError)
"""What the client raises when something answers that does not speak as a Hub does."""

TOKEN = re.compile(r"hf_\w{8,}|Bearer\s+\S+")
LOGIN = "set HF_TOKEN or run `hf auth login`"

WAITS_S = (1.0, 3.0)
"""Before the second and the third try; a fourth would try the user's patience."""
LONGEST_WAIT_S = 30.0
"""A Hub that asks for more gets no second try: the user is told how long to wait."""
TIMEOUT_S = 20.0
"""For an answer about a repository, which is small."""

SLOW_AFTER_S, LEAST_BYTES_PER_S = 60.0, 10_000
"""A download that is slower on average, after so long, is given up: it keeps others waiting."""
PARTIAL = 206
"""Status of an answer that begins where it was asked to."""
SHOWN_BYTES = 10**6
"""Downloads larger than this have a progress bar."""

NOBODY_THERE = {"ConnectError", "ConnectTimeout"}
"""No network, a wrong address: that does not pass in seconds."""

Kind = Literal["model", "space"]
HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
"""How the Hub names content: git's SHA-1 of the blob, or the SHA-256 of a large file."""
MAX_SIZE = 2**63

_Answer = TypeVar("_Answer")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class HubFile:
    """A file in a repository; None for what the Hub did not state, or not as a size or a hash."""

    name: str
    size: int | None
    digest: str | None
    """Names its content, see `HASH`."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RepoState:
    """What a repository holds at a revision."""

    commit: str
    files: Mapping[str, HubFile]
    library: str | None = None
    tags: tuple[str, ...] = ()
    is_private: bool = False
    is_gated: bool = False


def connect(token: str | None = None) -> HfApi:
    """Return the genuine client for the Hub at `HF_ENDPOINT`.

    Args:
        token: None takes `HF_TOKEN`, or the one that `hf auth login` left.

    Raises:
        HubError: if the token has characters no token has; it is not shown.
    """
    sent = token or get_token() or ""
    if not (sent.isascii() and sent.isprintable()) or " " in sent:
        raise HubError("the token has blanks or characters no token has: copy it again")
    return HfApi(endpoint=endpoint(), token=token)


def endpoint() -> str:
    """Return the address of the Hub; a mirror is named by `HF_ENDPOINT`.

    Raises:
        HubError: if that is no address.
    """
    address = os.environ.get("HF_ENDPOINT", "").rstrip("/")
    if address and not re.match(r"https?://[^/\s]", address):
        raise HubError(f"HF_ENDPOINT={address!r} is no address: it begins with https://")
    return address or huggingface_hub.constants.ENDPOINT


def is_offline() -> bool:
    """Tell whether `HF_HUB_OFFLINE` keeps us from the network."""
    return huggingface_hub.constants.HF_HUB_OFFLINE


@contextmanager
def plain_words(target: str) -> Iterator[None]:
    """Turn whatever the client raises into a `HubError` about `target`.

    The original is not chained: a traceback of it may show what was sent.
    """
    try:
        yield
    except HubNMTError:
        raise
    except (OSError, RuntimeError, ValueError, HTTP_ERROR) as error:
        raise explain(error, target=target, endpoint=endpoint()) from None


def retry(call: Callable[[], _Answer]) -> _Answer:
    """Make a call that can be repeated without harm, and repeat it if the Hub has trouble."""
    for wait in WAITS_S:
        try:
            return call()
        except (OSError, HTTP_ERROR) as error:
            seconds = _wait_before_next(error, wait)
            if seconds is None:
                raise
            pause(seconds)
    return call()


# --- what a repository holds ---


def read_repo(api: HfApi, repo: str, revision: str, *, kind: Kind = "model") -> RepoState:
    """Ask what a repository holds: the commit, and its files with sizes and hashes.

    A mirror may answer anything: names of commits and content become parts of paths here.

    Raises:
        HubError: if the answer cannot be read, as for some heads of cards.
        HTTP_ERROR, OSError, RuntimeError, ValueError: as the client does.
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
    except Exception as error:  # the client reads the answer without looking at its types
        raise HubError(
            f"what the Hub says of {repo} cannot be read ({type(error).__name__}): the head of its "
            "README.md is likely broken; its owner can mend it on the Hub"
        ) from None


def _read_state(info: Any) -> RepoState:
    """Take over from the client's answer what has the right type.

    Raises:
        TypeError: if there is no commit, or no list of files.
    """
    if not (isinstance(info.sha, str) and COMMIT.fullmatch(info.sha)):
        raise TypeError("the commit is no hash")
    names = [sibling.rfilename for sibling in info.siblings]
    if not all(isinstance(name, str) for name in names):
        raise TypeError("a file's name is no text")
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


# --- downloads and lists ---


def download(
    api: HfApi, repo: str, commit: str, name: str, sink: BinaryIO, *, max_bytes: int
) -> None:
    """Write a file of a repository; where the connection breaks, go on from there.

    Not the client's own download: that names a file in the cache by the ETag in the answer, which
    may be a path that leads out of it, and writes whatever comes, however much.

    Args:
        api: the Hub.
        repo: `user/name`.
        commit: hash.
        name: of the file.
        sink: an empty file.
        max_bytes: most that may come.

    Raises:
        HubError: if more comes, or too slowly.
        HTTP_ERROR, OSError: if it cannot be had.
    """
    url = hf_hub_url(repo, name, revision=commit, endpoint=api.endpoint)
    began = time.monotonic()
    hidden = None if max_bytes >= SHOWN_BYTES else True  # None: where nobody looks
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
    """Receive a file from where it was left."""
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
        for piece in answer.iter_raw():  # as sent: what is packed could be far larger than stated
            sink.write(piece)
            progress.update(sink.tell() - progress.n)
            if sink.tell() > max_bytes:
                raise HubError(f"{url} sends more than the Hub states ({max_bytes:,} bytes)")
            elapsed = time.monotonic() - began
            if elapsed > SLOW_AFTER_S and sink.tell() < elapsed * LEAST_BYTES_PER_S:
                raise HubError(f"{url} comes too slowly; the download was given up: try again")


def read_pages(api: HfApi, path: str, query: Mapping[str, Any]) -> Iterator[list[Any]]:
    """Ask for a list of the Hub's, one page whenever the iterator is read.

    The client can do this, but without a network it tries for half a minute, a line each time. Of
    the link to the next page only the query is taken: the token is for this address alone.

    Raises:
        HubError: if what comes is no list.
        HTTP_ERROR, OSError, ValueError: as the client does.
    """
    while query:
        answer = retry(partial(_get, api, path, query))
        rows = answer.json()
        if not isinstance(rows, list):
            raise HubError(f"{api.endpoint} did not answer as a Hub does: check HF_ENDPOINT")
        yield rows
        query = parse_qs(urlsplit(answer.links.get("next", {}).get("url", "")).query)


def _get(api: HfApi, path: str, query: Mapping[str, Any]) -> Any:
    headers = build_hf_headers(token=api.token)
    address = f"{api.endpoint}{path}"
    answer = get_session().get(address, params=dict(query), headers=headers, timeout=TIMEOUT_S)
    hf_raise_for_status(answer)
    return answer


def pause(seconds: float) -> None:
    """Give the Hub time."""
    time.sleep(seconds)


def _wait_before_next(error: BaseException, wait: float) -> float | None:
    """Say how long to wait before trying again, in seconds; None if that would not help."""
    if isinstance(error, LocalEntryNotFoundError) or not is_unreachable(error):
        return None  # the former means that the client has been patient itself
    if is_offline() or type(error).__name__ in NOBODY_THERE:
        return None
    if isinstance(error, HfHubHTTPError):
        asked = error.response.headers.get("Retry-After") or ""
        seconds = float(asked) if asked.isdigit() else wait
        return seconds if seconds <= LONGEST_WAIT_S else None
    return wait


# --- what an error means for the user ---


def explain(error: BaseException, *, target: str, endpoint: str) -> HubError:
    """Say what an exception means for the user.

    Args:
        error: as it came.
        target: what was asked for, such as `user/name@v1`.
        endpoint: address of the Hub.
    """
    for cause in causes(error):
        sentence = _explain_answer(cause, target, endpoint)
        if sentence:
            return HubError(sentence)
        if is_unreachable(cause):
            return HubUnreachableError(_explain_silence(cause, endpoint))
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            return HubError(f"no space left on the disk for {target}: free some and try again")
        if isinstance(cause, OSError) and cause.filename is not None:
            return HubError(_explain_disk(cause, target))
    if isinstance(error, LocalEntryNotFoundError):
        return HubUnreachableError(_explain_silence(error, endpoint))
    if "xet" in str(error).lower():
        return HubError(
            f"{target}: the Xet storage of {endpoint} cannot be used, a mirror may have none: "
            "set HF_HUB_DISABLE_XET=1 and try again"
        )
    return HubError(f"{target}: {_first_line(error)}; try again")


def is_unreachable(error: BaseException) -> bool:
    """Tell whether the Hub was silent or broken, and not of another opinion."""
    if isinstance(error, HfHubHTTPError):
        return error.response.status_code in TRANSIENT
    silent = (HTTP_ERROR, OfflineModeIsEnabled, *NO_HUB)
    return isinstance(error, silent) or _is_short(error)


def _is_short(error: BaseException) -> bool:
    """A download that ended early is a plain OSError of the client."""
    return isinstance(error, OSError) and "Consistency check failed" in str(error)


def causes(error: BaseException) -> Iterator[BaseException]:
    """Walk from an exception to those it was raised for: the client wraps some."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__


def _explain_answer(error: BaseException, target: str, endpoint: str) -> str | None:
    """Read the Hub's refusal; None if it is something else."""
    repo = target.split("@")[0]
    if isinstance(error, GatedRepoError):
        return (
            f"{repo} is gated: ask for access at {endpoint}/{repo} while logged in, "
            f"then give your token ({LOGIN})"
        )
    if isinstance(error, RepositoryNotFoundError):
        return (
            f"there is no folder {repo!r} here and no {repo!r} on {endpoint}, or it is private: "
            f"check the spelling; for a private one give a token that may read it ({LOGIN})"
        )
    if isinstance(error, RevisionNotFoundError):
        return (
            f"{target}: no such branch, tag or commit; {endpoint}/{repo}/tree/main lists them all"
        )
    if isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError):
        return f"{target}: a file of the model was not found; pull again, or ask its owner"
    return _explain_status(error, target, endpoint) if isinstance(error, HfHubHTTPError) else None


def _explain_status(error: HfHubHTTPError, target: str, endpoint: str) -> str | None:
    status = error.response.status_code
    sentences = {
        401: f"the Hub does not accept this token: make one at {endpoint}/settings/tokens, "
        f"then {LOGIN}",
        403: f"the Hub forbids this for {target}: your token needs the right to do it "
        f"({endpoint}/settings/tokens), and you a role in that account",
        404: f"{target} was not found on {endpoint}: check the spelling and HF_ENDPOINT",
        409: f"{target} is being changed by someone else at this moment: try again",
        412: f"{target} was changed by another push in the meantime; nothing was overwritten: "
        "look at what came in, then push again",
        413: f"{target}: the Hub finds a file too large",
    }
    if status in TRANSIENT:
        return None
    said = _first_line(error.server_message or "no reason given")
    return sentences.get(status, f"{target}: the Hub refused ({status}: {said})")


def _explain_silence(error: BaseException, endpoint: str) -> str:
    if isinstance(error, OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set, so the Hub is not asked: unset it to go online"
    if isinstance(error, HfHubHTTPError):
        status = error.response.status_code
        if status == 429:
            wait = error.response.headers.get("Retry-After")
            pause = f"{wait} s" if wait and wait.isdigit() else "a few minutes"
            return (
                f"the Hub has had too many requests from here (429): wait {pause} and try again; "
                f"with a token the limit is higher ({LOGIN})"
            )
        return f"the Hub at {endpoint} has trouble of its own ({status}): try again in a while"
    if _is_short(error):
        return f"the download from {endpoint} broke off: try again"
    if isinstance(error, NO_HUB):
        return (
            f"{endpoint} did not answer as a Hub does: check HF_ENDPOINT, or try again in a while"
        )
    return (
        f"cannot reach {endpoint} ({type(error).__name__}): check the network, proxy and "
        "HF_ENDPOINT, then try again; models in the cache work without (HF_HUB_OFFLINE=1)"
    )


def _explain_disk(error: OSError, target: str) -> str:
    where = error.filename2 or error.filename
    said = (error.strerror or type(error).__name__).lower()
    return f"{target}: cannot use {where} ({said}); name another folder, or HF_HOME for the cache"


def _first_line(error: object) -> str:
    """Take the first words of a message, and no token with them."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return hide_tokens(lines[0] if lines else type(error).__name__)[:300]


def hide_tokens(text: str) -> str:
    """Cover whatever looks like a token."""
    return TOKEN.sub("hf_***", text)

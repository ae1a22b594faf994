"""Errors of the Hub's client, as messages that name the cause and the remedy.

Messages never contain a token.
"""

import errno
import json
import re
from collections.abc import Iterator
from typing import cast

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

from hubnmt.errors import HubError, HubUnreachableError


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

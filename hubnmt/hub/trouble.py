"""What went wrong on the way to the Hub, in one sentence that says what to do.

Takes an exception of `huggingface_hub`, gives a `HubError`. Must not know what was being done. No
token ever appears in a sentence.
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

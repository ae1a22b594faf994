"""Exceptions of the Hub's client, as one line that names the cause and the remedy.

Messages never contain a token.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub import constants
from huggingface_hub.errors import (
    FileMetadataError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from hubnmt.errors import HubError, HubNMTError, HubUnreachableError

HTTP_ERROR = next(base for base in HfHubHTTPError.__mro__ if base.__name__ == "HTTPError")
"""Base class of the errors of the HTTP library that `huggingface_hub` uses."""

TRANSIENT = {408, 429, 500, 502, 503, 504}
"""Status codes after which a retry may succeed."""

TOKEN = re.compile(r"hf_\w{8,}|Bearer\s+\S+")
LOGIN = "set HF_TOKEN or run `hf auth login`"

REFUSALS: dict[type[Exception] | int, str] = {
    GatedRepoError: "{repo} is gated: ask for access at {endpoint}/{repo} while logged in, "
    f"then provide your token ({LOGIN})",
    RepositoryNotFoundError: "there is no folder {repo!r} here and no {repo!r} on {endpoint}, or "
    "it is private: check the spelling; for a private one provide a token that may read it "
    f"({LOGIN})",
    RevisionNotFoundError: "{target}: no such branch, tag or commit; {endpoint}/{repo}/tree/main "
    "lists them all",
    RemoteEntryNotFoundError: "{target}: a file of the model was not found; pull again, or contact "
    "its owner",
    401: "the Hub does not accept this token: create one at {endpoint}/settings/tokens, "
    f"then {LOGIN}",
    403: "the Hub forbids this for {target}: your token needs the permission "
    "({endpoint}/settings/tokens), and your user a role in that account",
    404: "{target} was not found on {endpoint}: check the spelling and HF_ENDPOINT",
    409: "{target} is being modified by someone else: try again",
    412: "{target} was changed by another push; nothing was overwritten: check that change, then "
    "push again",
    413: "{target}: a file is too large for the Hub",
}
"""Messages by exception or status code."""


@contextmanager
def readable_errors(target: str) -> Iterator[None]:
    """Convert exceptions of the client, which are of many kinds, to a `HubError` about `target`.

    The original is not chained, because its traceback may show the request and its token.
    """
    try:
        yield
    except HubNMTError:
        raise
    except Exception as error:
        raise explain(error, target) from None


def explain(error: BaseException, target: str) -> HubError:
    """Convert an exception about a target, such as `user/name@v1`, to a message for the user."""
    cause: BaseException | None = error
    while cause is not None:  # the client wraps some
        if _is_unreachable(cause):
            return HubUnreachableError(_explain_unreachable(cause))
        if isinstance(cause, HfHubHTTPError):
            return HubError(_explain_refusal(cause, target))
        if isinstance(cause, OSError) and cause.errno is not None:
            where = cause.filename2 or cause.filename or "the disk"
            reason = (cause.strerror or type(cause).__name__).lower()
            return HubError(
                f"{target}: cannot use {where} ({reason}); free disk space, choose another "
                "folder, or set HF_HOME"
            )
        cause = cause.__cause__
    if isinstance(error, LocalEntryNotFoundError):
        return HubUnreachableError(_explain_unreachable(error))
    if "xet" in str(error).lower():
        return HubError(
            f"{target}: the Xet storage of {constants.ENDPOINT} cannot be used, a mirror may not "
            "have it: set HF_HUB_DISABLE_XET=1 and try again"
        )
    return HubError(
        f"{target}: {_first_line(error)}; try again, or check the metadata in its README.md"
    )


def _is_unreachable(error: BaseException) -> bool:
    if isinstance(error, HfHubHTTPError):
        return error.response.status_code in TRANSIENT
    network = (HTTP_ERROR, OfflineModeIsEnabled, json.JSONDecodeError, FileMetadataError)
    return isinstance(error, network)


def _explain_refusal(error: HfHubHTTPError, target: str) -> str:
    status = error.response.status_code
    reason = _first_line(error.server_message or "no reason given")
    keys = [key for key in (*type(error).__mro__, status) if key in REFUSALS]
    if not keys:
        return f"{target}: the Hub refused ({status}: {reason})"
    repo, endpoint = target.split("@")[0], constants.ENDPOINT
    return REFUSALS[keys[0]].format(target=target, repo=repo, endpoint=endpoint)


def _explain_unreachable(error: BaseException) -> str:
    endpoint = constants.ENDPOINT
    if isinstance(error, OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set, so the Hub is not contacted: unset it to go online"
    if isinstance(error, (json.JSONDecodeError, FileMetadataError)):
        return f"{endpoint} did not respond like a Hub: check HF_ENDPOINT, or try again later"
    if not isinstance(error, HfHubHTTPError):
        return (
            f"cannot reach {endpoint} ({type(error).__name__}): check the network, proxy and "
            "HF_ENDPOINT, then try again; cached models work offline (HF_HUB_OFFLINE=1)"
        )
    wait = error.response.headers.get("Retry-After") or ""
    pause = f"after {wait} s" if wait.isdigit() else "later"
    if error.response.status_code == 429:
        return f"too many requests to the Hub (429): try again {pause}; a token raises the limit"
    return f"the Hub has a server error ({error.response.status_code}): try again {pause}"


def _first_line(error: object) -> str:
    line = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return TOKEN.sub("hf_***", line.strip())[:300]

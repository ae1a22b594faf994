"""The line to the Hub: an address, a token, patience, and plain words when it breaks.

Takes the environment (`HF_ENDPOINT`, `HF_TOKEN`, `HF_HUB_OFFLINE`, as `huggingface_hub` reads them)
and calls to make, gives what they return. Must not know models. What the client does by itself
(2.4) sets the measure of patience here: requests about repositories are tried once, lists six
times, downloads go on after a broken connection but not after an answer of 5xx, a commit is never
repeated.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import huggingface_hub
from huggingface_hub import HfApi, get_session, get_token
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
from huggingface_hub.utils import (  # type: ignore[attr-defined]  # documented, not marked so
    build_hf_headers,
    hf_raise_for_status,
)

from hubnmt.errors import HubError, HubNMTError
from hubnmt.hub.trouble import HTTP_ERROR, explain, is_unreachable

WAITS_S = (1.0, 3.0)
"""Before the second and the third try; a fourth would try the user's patience."""
LONGEST_WAIT_S = 30.0
"""A Hub that asks for more gets no second try: the user is told how long to wait."""
TIMEOUT_S = 20.0
"""For an answer about a repository, which is small."""

NOBODY_THERE = {"ConnectError", "ConnectTimeout"}
"""No network, a wrong address: that does not pass in seconds."""

_Answer = TypeVar("_Answer")


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


def patiently(call: Callable[[], _Answer]) -> _Answer:
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


def ask_about(repo: str, call: Callable[[], _Answer]) -> _Answer:
    """Ask what the Hub knows of a repository, patiently.

    Raises:
        HubError: if the client fails over the answer, as it does over some heads of cards.
        HTTP_ERROR, OSError, RuntimeError, ValueError: as the client does.
    """
    try:
        return patiently(call)
    except (TypeError, AttributeError, KeyError) as error:
        raise HubError(
            f"what the Hub says of {repo} cannot be read ({type(error).__name__}): the head of its "
            "README.md is likely broken; its owner can mend it on the Hub"
        ) from None


def read_pages(api: HfApi, path: str, query: Mapping[str, Any]) -> Iterator[list[Any]]:
    """Ask for a list of the Hub's, one page whenever the iterator is read.

    The client can do this, but without a network it tries for half a minute, a line each time. Of
    the link to the next page only the query is taken: the token is for this address alone.

    Raises:
        HubError: if what comes is no list.
        HTTP_ERROR, OSError, ValueError: as the client does.
    """
    while query:
        answer = patiently(partial(_get, api, path, query))
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

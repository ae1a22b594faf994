"""Every way the client can fail has a sentence, and no sentence has a token in it."""

import errno
import json

import huggingface_hub.errors as theirs
import pytest

from hubnmt.errors import HubError, HubUnreachableError
from hubnmt.hub.trouble import (
    HTTP_ERROR,
    causes,
    explain,
    find_http_error,
    hide_tokens,
    is_unreachable,
)
from tests.hub import TOKEN

HUB = "https://hub.example"


def sentence(error: BaseException) -> str:
    explained = explain(error, target="user/name@v1", endpoint=HUB)
    assert "\n" not in str(explained)
    return str(explained)


def chained(outer: BaseException, cause: BaseException) -> BaseException:
    outer.__cause__ = cause
    return outer


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (theirs.OfflineModeIsEnabled("x"), "HF_HUB_OFFLINE is set"),
        (json.JSONDecodeError("x", "", 0), "did not answer as a Hub does"),
        (theirs.FileMetadataError("x"), "did not answer as a Hub does"),
        (theirs.LocalEntryNotFoundError("x"), f"cannot reach {HUB}"),
        (HTTP_ERROR("x"), f"cannot reach {HUB}"),
        (OSError("Consistency check failed: file should be"), "broke off: try again"),
        (chained(RuntimeError("while uploading"), HTTP_ERROR("x")), f"cannot reach {HUB}"),
    ],
)
def test_silence_is_told_from_refusal(error: BaseException, words: str):
    assert words in sentence(error)
    assert isinstance(explain(error, target="x", endpoint=HUB), HubUnreachableError)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left"), "no space left on the disk"),
        (
            PermissionError(errno.EACCES, "Permission denied", "/cache/x"),
            "cannot use /cache/x (permission denied); name another folder, or HF_HOME",
        ),
        (
            chained(
                RuntimeError("while writing"), OSError(errno.EROFS, "Read-only", "/a", 0, "/b")
            ),
            "cannot use /b (read-only)",
        ),
        (ValueError("something odd\nsecond line"), "something odd; try again"),
        (RuntimeError(""), "RuntimeError; try again"),
        (RuntimeError("404, http://x/xet-write-token/main"), "set HF_HUB_DISABLE_XET=1"),
    ],
)
def test_the_rest_is_said_as_it_is(error: BaseException, words: str):
    assert words in sentence(error)
    explained = explain(error, target="x", endpoint=HUB)
    assert type(explained) is HubError


@pytest.mark.parametrize("text", [f"sent {TOKEN} there", f"Authorization: Bearer {TOKEN}"])
def test_tokens_are_covered(text: str):
    assert TOKEN not in hide_tokens(text)
    assert TOKEN not in sentence(ValueError(text))


def test_causes_are_walked_from_the_outside():
    inner, outer = ValueError("in"), RuntimeError("out")
    assert list(causes(chained(outer, inner))) == [outer, inner]


def test_a_mistake_of_ours_is_not_the_hubs_silence():
    assert not is_unreachable(ValueError("x"))
    assert not is_unreachable(OSError("x"))


def test_a_client_with_another_http_library_can_be_imported():
    assert HTTP_ERROR in theirs.HfHubHTTPError.__mro__
    assert HTTP_ERROR.__name__ == "HTTPError"
    assert find_http_error(OSError) is OSError

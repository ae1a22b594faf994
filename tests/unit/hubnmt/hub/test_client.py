"""The client of the Hub: its token, and its errors as one line."""

import errno
import traceback
from pathlib import Path

import huggingface_hub
import huggingface_hub.errors as theirs
import pytest

from hubnmt.errors import HubError
from hubnmt.hub.client import HTTP_ERROR, connect, readable_errors
from tests.hub import TOKEN
from tests.hub_server import HubServer


@pytest.mark.parametrize("token", [TOKEN + "\n", TOKEN + "ü", "two " + TOKEN, TOKEN + "\x00"])
def test_an_invalid_token_is_refused_unseen(token: str, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(HubError, match="copy it again") as error:
        connect(token)
    assert TOKEN not in "".join(traceback.format_exception(error.value))
    if token[-1] not in "\n\0":  # the client cuts off the one, no environment holds the other
        monkeypatch.setenv("HF_TOKEN", token)
        with pytest.raises(HubError, match="copy it again"):
            connect()


def test_the_login_is_taken_where_no_token_is_set(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    hub.store.create("model", "user/a", private=True)
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    with pytest.raises(HubError, match="there is no token"):
        connect(write=True)
    with pytest.raises(theirs.RepositoryNotFoundError):
        connect().model_info("user/a")
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert connect(write=True).model_info("user/a").id == "user/a"


def chained(outer: BaseException, cause: BaseException) -> BaseException:
    outer.__cause__ = cause
    return outer


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (theirs.OfflineModeIsEnabled("x"), "HF_HUB_OFFLINE is set"),
        (
            chained(RuntimeError("while uploading"), HTTP_ERROR("x")),
            "cannot reach https://huggingface.co",
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "/cache/x"),
            "cannot use /cache/x (permission denied); free disk space, choose another folder",
        ),
        (
            chained(
                RuntimeError("while writing"), OSError(errno.EROFS, "Read-only", "/a", 0, "/b")
            ),
            "cannot use /b (read-only)",
        ),
        (ValueError("something odd\nsecond line"), "something odd second line; try again"),
    ],
)
def test_each_trouble_is_one_line_with_its_remedy(error: BaseException, words: str):
    with pytest.raises(HubError) as explained, readable_errors("user/name@v1"):
        raise error
    assert words in str(explained.value)
    assert "\n" not in str(explained.value)

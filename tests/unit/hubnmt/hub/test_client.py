"""The line to the Hub."""

import errno
import traceback
from pathlib import Path

import huggingface_hub
import huggingface_hub.errors as theirs
import pytest

from hubnmt.errors import HubError
from hubnmt.hub import client
from hubnmt.hub.client import connect, read_pages, retry
from hubnmt.hub.errors import HTTP_ERROR, explain, hide_tokens
from tests.hub import TOKEN
from tests.hub_server import Fault, HubServer


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What was waited for, in seconds; nobody waits."""
    seen: list[float] = []
    monkeypatch.setattr(client, "pause", seen.append)
    return seen


@pytest.mark.parametrize(("asked", "waited"), [("7", 7.0), ("soon", 1.0), ("", 1.0)])
def test_the_hub_says_how_long_to_wait(
    asked: str, waited: float, hub: HubServer, waits: list[float]
):
    hub.store.create("model", "user/a")
    hub.faults.add(Fault("GET", status=429, headers={"Retry-After": asked}))
    retry(lambda: connect().model_info("user/a"))
    assert waits == [waited]


def test_a_link_to_another_host_gets_no_token(hub: HubServer):
    """A mirror may pass on links to the Hub itself, or to anybody."""
    hub.store.create("model", "user/a")
    hub.store.create("model", "user/b")
    with HubServer() as other:
        hub.own_name = other.url
        pages = read_pages(connect(), "/api/models", {"limit": 1})
        assert [row["id"] for page in pages for row in page] == ["user/a", "user/b"]
        assert other.requests == []


@pytest.mark.parametrize("address", ["mirror.example", "ftp://mirror.example", "https://", "x y"])
def test_what_is_no_address_is_said(address: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_ENDPOINT", address)
    with pytest.raises(HubError, match="is not a URL: it must begin with https://"):
        connect()


@pytest.mark.parametrize("token", [TOKEN + "\n", TOKEN + "ü", "two " + TOKEN, TOKEN + "\x00"])
def test_a_spoiled_token_is_refused_unseen(token: str, monkeypatch: pytest.MonkeyPatch):
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
    with pytest.raises(HTTP_ERROR):
        connect().model_info("user/a")
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert connect().model_info("user/a").id == "user/a"
    assert next(read_pages(connect(), "/api/models", {"author": "user"}))


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
        (theirs.LocalEntryNotFoundError("x"), f"cannot reach {HUB}"),
        (OSError("Consistency check failed: file should be"), "was interrupted: try again"),
        (chained(RuntimeError("while uploading"), HTTP_ERROR("x")), f"cannot reach {HUB}"),
        (OSError(errno.ENOSPC, "No space left"), "no space left on the disk"),
        (
            PermissionError(errno.EACCES, "Permission denied", "/cache/x"),
            "cannot use /cache/x (permission denied); choose another folder, or set HF_HOME",
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
def test_each_trouble_is_one_line_with_its_remedy(error: BaseException, words: str):
    assert words in sentence(error)


@pytest.mark.parametrize("text", [f"sent {TOKEN} there", f"Authorization: Bearer {TOKEN}"])
def test_tokens_are_covered(text: str):
    assert TOKEN not in hide_tokens(text)
    assert TOKEN not in sentence(ValueError(text))

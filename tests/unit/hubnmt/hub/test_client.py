"""The line to the Hub."""

import errno
import json
import traceback
from pathlib import Path

import huggingface_hub
import huggingface_hub.errors as theirs
import pytest

from hubnmt.errors import HubError, HubUnreachableError, InputError
from hubnmt.hub import client
from hubnmt.hub.client import (
    WAITS_S,
    HubFile,
    connect,
    endpoint,
    is_offline,
    plain_words,
    read_pages,
    read_repo,
    retry,
)
from hubnmt.hub.errors import (
    HTTP_ERROR,
    explain,
    hide_tokens,
    is_unreachable,
)
from tests.hub import TOKEN
from tests.hub_server import Fault, HubServer


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What was waited for, in seconds; nobody waits."""
    seen: list[float] = []
    monkeypatch.setattr(client, "pause", seen.append)
    return seen


class Flaky:
    """Fails a number of times, then answers."""

    def __init__(self, n_failures: int, error: BaseException) -> None:
        self.n_failures, self.error, self.n_calls = n_failures, error, 0

    def __call__(self) -> str:
        self.n_calls += 1
        if self.n_calls <= self.n_failures:
            raise self.error
        return "answer"


def test_a_call_that_fails_for_a_moment_is_repeated(waits: list[float]):
    call = Flaky(2, HTTP_ERROR("cut"))
    assert retry(call) == "answer"
    assert waits == list(WAITS_S)


def test_patience_ends(waits: list[float]):
    call = Flaky(99, HTTP_ERROR("cut"))
    with pytest.raises(HTTP_ERROR):
        retry(call)
    assert call.n_calls == len(WAITS_S) + 1


def test_a_mistake_is_not_repeated(waits: list[float]):
    call = Flaky(99, OSError("no such file"))
    with pytest.raises(OSError, match="no such file"):
        retry(call)
    assert call.n_calls == 1
    assert waits == []


def test_offline_nothing_is_repeated(waits: list[float], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert is_offline()
    call = Flaky(99, HTTP_ERROR("cut"))
    with pytest.raises(HTTP_ERROR):
        retry(call)
    assert call.n_calls == 1


@pytest.mark.parametrize(("asked", "waited"), [("7", 7.0), ("soon", 1.0), ("", 1.0)])
def test_the_hub_says_how_long_to_wait(
    asked: str, waited: float, hub: HubServer, waits: list[float]
):
    hub.store.create("model", "user/a")
    hub.faults.add(Fault("GET", status=429, headers={"Retry-After": asked}))
    retry(lambda: connect().model_info("user/a"))
    assert waits == [waited]


@pytest.mark.parametrize("name", ["ConnectError", "ConnectTimeout"])
def test_nobody_is_asked_twice_where_nobody_is(name: str, waits: list[float]):
    call = Flaky(99, type(name, (HTTP_ERROR,), {})("unplugged"))
    with pytest.raises(HTTP_ERROR):
        retry(call)
    assert call.n_calls == 1


def test_an_answer_the_client_fails_over_is_a_sentence(hub: HubServer):
    hub.store.create("model", "user/a")
    hub.edit = lambda answer: answer.update(cardData={"self": 1})
    with pytest.raises(HubError, match=r"of user/a cannot be read \(TypeError\).*README"):
        read_repo(connect(), "user/a", "main")


def test_what_a_repository_holds_is_told(hub: HubServer):
    hub.store.put("user/a", {"a.txt": b"one", "b.safetensors": b"three"}).gated = True
    state = read_repo(connect(), "user/a", "main")
    files = hub.repo("user/a").resolve("main").files
    assert state.commit == hub.repo("user/a").branches["main"]
    assert (state.is_gated, state.is_private) == (True, False)
    for name in ("a.txt", "b.safetensors"):
        blob = files[name]
        assert state.files[name] == HubFile(name=name, size=len(blob.data), digest=blob.etag)


# --- lists ---------------------------------------------------------------------------------------


def test_pages_are_asked_for_one_by_one(hub: HubServer):
    for name in ("user/a", "user/b", "user/c"):
        hub.store.create("model", name)
    pages = read_pages(connect(), "/api/models", {"limit": 2, "author": "user"})
    assert [row["id"] for row in next(pages)] == ["user/a", "user/b"]
    assert len(hub.requests) == 1
    assert [[row["id"] for row in page] for page in pages] == [["user/c"]]
    assert all("author=user" in request.path for request in hub.requests)
    assert [request.headers["authorization"] for request in hub.requests] == [f"Bearer {TOKEN}"] * 2


def test_a_link_to_another_host_gets_no_token(hub: HubServer):
    """A mirror may pass on links to the Hub itself, or to anybody."""
    hub.store.create("model", "user/a")
    hub.store.create("model", "user/b")
    with HubServer() as other:
        hub.own_name = other.url
        pages = read_pages(connect(), "/api/models", {"limit": 1})
        assert [row["id"] for page in pages for row in page] == ["user/a", "user/b"]
        assert other.requests == []


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_list_that_stumbles_goes_on(status: int, hub: HubServer, waits: list[float]):
    for name in ("user/a", "user/b"):
        hub.store.create("model", name)
    pages = read_pages(connect(), "/api/models", {"limit": 1})
    hub.faults.add(Fault("GET", status=status))
    next(pages)
    hub.faults.add(Fault("GET", cut_after=10))
    assert len(next(pages)) == 1
    assert waits == [WAITS_S[0]] * 2


def test_a_list_that_is_none_is_said(hub: HubServer):
    """An address where something else answers, as the page of a repository does here."""
    hub.store.create("model", "user/a")
    with pytest.raises(HubError, match="did not respond like a Hub"):
        next(read_pages(connect(), "/api/models/user/a", {"limit": 1}))


def test_the_address_is_the_environments(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://mirror.example/")
    assert endpoint() == "http://mirror.example"
    assert connect().endpoint == "http://mirror.example"
    monkeypatch.delenv("HF_ENDPOINT")
    assert endpoint() == huggingface_hub.constants.ENDPOINT


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


def test_errors_become_sentences_and_no_traceback_shows_what_was_sent():
    with pytest.raises(HubUnreachableError) as error, plain_words("user/name"):
        raise HTTP_ERROR(f"Illegal header value b'Bearer {TOKEN}'")
    assert TOKEN not in "".join(traceback.format_exception(error.value))


def test_our_own_errors_pass_as_they_are():
    with pytest.raises(InputError, match="mine"), plain_words("user/name"):
        raise InputError("mine")


def test_ctrl_c_passes():
    with pytest.raises(KeyboardInterrupt), plain_words("user/name"):
        raise KeyboardInterrupt


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
        (json.JSONDecodeError("x", "", 0), "did not respond like a Hub"),
        (theirs.FileMetadataError("x"), "did not respond like a Hub"),
        (theirs.LocalEntryNotFoundError("x"), f"cannot reach {HUB}"),
        (HTTP_ERROR("x"), f"cannot reach {HUB}"),
        (OSError("Consistency check failed: file should be"), "was interrupted: try again"),
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
def test_the_rest_is_said_as_it_is(error: BaseException, words: str):
    assert words in sentence(error)
    explained = explain(error, target="x", endpoint=HUB)
    assert type(explained) is HubError


@pytest.mark.parametrize("text", [f"sent {TOKEN} there", f"Authorization: Bearer {TOKEN}"])
def test_tokens_are_covered(text: str):
    assert TOKEN not in hide_tokens(text)
    assert TOKEN not in sentence(ValueError(text))


def test_a_mistake_of_ours_is_not_the_hubs_silence():
    assert not is_unreachable(ValueError("x"))
    assert not is_unreachable(OSError("x"))

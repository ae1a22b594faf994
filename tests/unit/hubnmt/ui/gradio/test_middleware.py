import contextlib
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from hubnmt.ui.gradio import middleware, request_limits
from hubnmt.ui.services import scheduler, uploads
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.translate import Handlers
from tests.page import FakeTranslator, serving


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def url(files: Path) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADIO_TEMP_DIR", str(files))
        with serving(Handlers(ModelRegistry(FakeTranslator, {"first": files}))) as url:
            yield f"{url}gradio_api/"


def upload(url: str, content: bytes, address: str = "10.0.0.1", **more: object) -> httpx.Response:
    given = more or {"files": ("a.txt", content)}
    return httpx.post(f"{url}upload", files=given, headers={"X-Forwarded-For": address})


def size_mib(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20


def test_one_client_cannot_fill_the_disk(url: str, files: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(uploads, "MAX_CLIENT_MIB", 2)
    (kept,) = upload(url, b"honest", "10.0.0.2").json()
    for n in range(6):
        assert upload(url, bytes([n]) * 2**20).status_code == 200
    assert size_mib(files) < 2.1
    assert Path(kept).read_bytes() == b"honest"


def test_all_clients_cannot_fill_the_disk(url: str, files: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(uploads, "MAX_TOTAL_MIB", 2)
    monkeypatch.setattr(middleware, "TRIM_EVERY_S", 0.0)
    for n in range(6):
        assert upload(url, bytes([n]) * 2**20, f"10.1.0.{n}").status_code == 200
    assert size_mib(files) < 3.1


def connect(url: str) -> socket.socket:
    place = urlsplit(url)
    return socket.create_connection((place.hostname or "", place.port or 0), 10)


HEAD = b"POST /gradio_api/upload HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000\r\n\r\n"


def test_a_body_that_trickles_is_refused_and_leaves_nothing(
    url: str, files: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(request_limits, "BODY_WITHIN_S", 0.5)
    before = size_mib(files)
    with connect(url) as connection:
        connection.sendall(HEAD)
        started, answer = time.monotonic(), b""
        while b"}" not in answer and time.monotonic() < started + 5:
            with contextlib.suppress(OSError):
                connection.sendall(b"x")
            connection.settimeout(0.1)
            with contextlib.suppress(TimeoutError):
                answer += connection.recv(4096)
    assert b"408" in answer
    assert b"timed out" in answer
    assert size_mib(files) == before


def test_a_body_of_any_kind_is_bounded(url: str):
    for route in ("queue/join", "call/translate", "upload", "run/translate"):
        assert httpx.post(f"{url}{route}", content=b"[" * (7 * 2**20)).status_code == 413


def test_work_without_a_listener_is_dropped(url: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scheduler, "LISTEN_WITHIN_S", 0.3)
    body = {"data": ["ein hund", "", *[None] * 14]}
    event = httpx.post(f"{url}call/translate", json=body).json()["event_id"]
    time.sleep(1.5)
    assert "EIN HUND" not in httpx.get(f"{url}call/translate/{event}").text


def test_new_sessions_of_one_address_do_not_crowd_out_another(
    url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(request_limits, "MAX_WAITING_SESSIONS", 2)

    def begin(address: str, session: str) -> int:
        body = {"data": ["ein hund", "", *[None] * 14], "session_hash": session}
        sent = {"X-Forwarded-For": address}
        return httpx.post(f"{url}call/translate", json=body, headers=sent).status_code

    with ThreadPoolExecutor(12) as crowd:
        codes = list(crowd.map(lambda n: begin("10.9.0.1", f"hostile {n}"), range(12)))
        assert begin("10.9.0.2", "honest") == 200
    assert 503 in codes
    assert codes.count(200) >= request_limits.FREE_SESSIONS


def test_a_link_to_the_page_shows_its_title_and_picture(url: str):
    root = url.removesuffix("gradio_api/")
    page = httpx.get(root).text
    assert page.count('property="og:title"') == 1
    assert 'property="og:title" content="hubnmt: ' in page
    assert "twitter:creator" not in page
    assert page.rstrip().endswith("</html>")
    (picture,) = re.findall('property="og:image" content="([^"]*)"', page)
    assert picture == f"{root}share.png"
    answer = httpx.get(picture)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")

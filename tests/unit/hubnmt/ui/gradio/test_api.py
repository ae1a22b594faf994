import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError

from hubnmt.config import DecodingConfig
from hubnmt.ui.services.registry import ModelRegistry
from tests.page import bundled_translator, load, serving, translated

TEXT = "ein hund rennt im schnee"
SECRET = "the visitor's own secret sentence"


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[Client]:
    client = Client(url, verbose=False)
    yield client
    client.close()


def test_clients_call_the_endpoints_by_name(client: Client):
    text, details = client.predict("ein hund", api_name="/translate")
    assert text == translated("ein hund")
    assert details["model"] == "first"
    options = {"beam_size": 3, "n_best": 2, "prefix": "A"}
    text, details = client.predict(TEXT, **options, api_name="/translate")
    expected = bundled_translator().translate(TEXT, **options)
    assert [each["text"] for each in details["n_best"]] == [each.text for each in expected.n_best]
    maps = client.predict("ein hund rennt", layer=1, head=2, api_name="/attention")
    assert "".join(maps["src_tokens"]).strip() == "ein hund rennt<eos>"
    assert len(maps["weights"][0]) == len(maps["src_tokens"])
    rare = "Ein Schneesturm."
    pieces = client.predict(rare, api_name="/attention")
    words = client.predict(rare, unit="words", api_name="/attention")
    assert [word.strip() for word in words["src_tokens"]] == ["Ein", "Schneesturm", ".", "<eos>"]
    assert len(words["src_tokens"]) < len(pieces["src_tokens"])
    assert all(sum(row) == pytest.approx(1, abs=1e-3) for row in words["weights"])
    assert words["links"] == pieces["links"] != []
    scored = client.predict("ein hund", "the dog", api_name="/score")
    assert "".join(scored["tgt_tokens"]).strip() == "the dog<eos>"
    assert client.predict(api_name="/models")[0]["name"] == "first"


def test_clients_give_options_by_the_names_of_the_configuration(client: Client):
    endpoints = client.view_api(return_format="dict")["named_endpoints"]
    parameters = {name: endpoint["parameters"] for name, endpoint in endpoints.items()}
    assert {p["parameter_name"] for p in parameters["/translate"]} == {
        *("text", "model", "prefix", "src_lang", "tgt_lang"),
        *DecodingConfig().to_dict(),
    }
    assert {
        name: [p["parameter_name"] for p in given if not p["parameter_has_default"]]
        for name, given in parameters.items()
    } == {
        "/translate": ["text"],
        "/attention": ["text"],
        "/score": ["src", "tgt"],
        "/models": [],
        "/translate_file": ["file"],
    }


def test_a_client_gets_the_sentence_of_an_error(client: Client):
    with pytest.raises(AppError, match="there is nothing to translate yet"):
        client.predict("  ", api_name="/translate")
    with pytest.raises(AppError, match="is not available on this page"):
        client.predict("ein hund", model="/etc", api_name="/translate")
    for wrong in ({"layer": 99}, {"head": -1}, {"head": 99}, {"layer": True}):
        with pytest.raises(AppError, match=r"must be 0 \(average\) to"):
            client.predict(TEXT, **wrong, api_name="/attention")


def test_a_file_goes_in_and_comes_back_translated(client: Client, tmp_path: Path):
    upload = tmp_path / "pairs.tsv"
    upload.write_text("de\ten\n" + f"{TEXT}\t{translated(TEXT)}\n" * 40)
    path, details = client.predict(
        handle_file(upload), column="de", beam_size=8, api_name="/translate_file"
    )
    assert Path(path).name == "pairs.en.tsv"
    lines = Path(path).read_text().splitlines()
    assert lines[:2] == [
        "de\ten\ttranslation",
        "\t".join([TEXT, translated(TEXT), translated(TEXT)]),
    ]
    assert details["done"] == details["rows"] == 40


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "app.py", "../app.py", "hubnmt/ui/gradio/page.py", "/proc/self/environ"]
)
def test_no_endpoint_reads_a_file_that_was_not_uploaded(url: str, path: str):
    for given in (path, {"path": path}, {"path": path, "meta": {"_type": "gradio.FileData"}}):
        data = {"data": [given, "", "", True, None, None]}
        call = httpx.post(f"{url}gradio_api/call/translate_file", json=data)
        answer = httpx.get(f"{url}gradio_api/call/translate_file/{call.json()['event_id']}")
        assert answer.text.startswith("event: error")
        assert "root:" not in answer.text
    assert httpx.get(f"{url}gradio_api/file={path}").status_code in (403, 404)


def test_a_file_too_large_does_not_arrive(url: str):
    files = {"files": ("a.txt", b"x" * (6 * 2**20))}
    assert httpx.post(f"{url}gradio_api/upload", files=files).status_code == 413


def test_agents_find_the_endpoints_as_tools(bundled_model: Path):
    mcp = pytest.importorskip("mcp")
    http = pytest.importorskip("mcp.client.streamable_http")

    async def ask(url: str) -> tuple[dict[str, str], Any]:
        async with (
            http.streamable_http_client(f"{url}gradio_api/mcp/") as (reads, writes, _),
            mcp.ClientSession(reads, writes) as session,
        ):
            await session.initialize()
            tools = {tool.name: tool.description for tool in (await session.list_tools()).tools}
            answer = await session.call_tool("translate", {"text": "ein hund"})
            return tools, answer

    # In a thread of its own: the browser tests leave this one with a running event loop.
    registry = ModelRegistry(load, {"first": bundled_model})
    with serving(registry, has_mcp=True) as url, ThreadPoolExecutor(1) as aside:
        tools, answer = aside.submit(lambda: asyncio.run(ask(url))).result()
    assert {"translate", "attention", "score", "models", "translate_file"} <= set(tools)
    assert tools["translate"].startswith("Translate a text with a Transformer")
    assert translated("ein hund") in answer.content[0].text


def test_without_mcp_the_page_about_the_api_meets_no_error(url: str):
    answer = httpx.get(f"{url}gradio_api/mcp/schema")
    assert answer.status_code == 304  # neither an error in the console nor a list of tools


JUNK = ("\ud800", 10**400, float("nan"), float("inf"), -1, 2.5, True, [], {"a": [1]}, "x" * 99_999)
PARAMETERS = {
    "translate": ["ein hund", "", *[None] * 14],
    "attention": ["ein hund", "", "", 0, 0, "pieces"],
    "score": ["ein hund", "the dog", ""],
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_whatever_a_parameter_is_the_answer_is_one_sentence(
    url: str, name: str, capfd: pytest.CaptureFixture[str]
):
    call = f"{url}gradio_api/call/{name}"
    with httpx.Client(timeout=60) as http:
        for place in range(len(PARAMETERS[name])):
            for n, junk in enumerate(JUNK):
                data = [*PARAMETERS[name]]
                data[place] = junk
                body = json.dumps({"data": data, "session_hash": f"junk {name}"})
                event = http.post(call, content=body, headers={"Content-Type": "application/json"})
                answer = http.get(f"{call}/{event.json()['event_id']}").text
                if answer.startswith("event: error"):
                    said = json.loads(answer.split("data: ")[1])["error"]
                    assert said, (place, n)
                    assert len(said) < 3_700  # half a surrogate pair is spelled in six letters
                else:
                    assert answer.startswith("event: complete"), (place, n, answer[:100])
    assert "Traceback" not in "".join(capfd.readouterr())


def test_what_visitors_write_is_never_logged(
    client: Client, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
):
    with caplog.at_level("INFO"):
        client.predict(SECRET, api_name="/translate")
        client.predict(SECRET, SECRET, api_name="/score")
        for text, options in ((SECRET, {"beam_size": 0}), (SECRET * 1000, {})):
            with pytest.raises(AppError):
                client.predict(text, **options, api_name="/translate")
    said = "".join(capfd.readouterr()) + caplog.text
    assert SECRET not in said

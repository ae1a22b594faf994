import json

import httpx
import pytest
from libretranslatepy import LibreTranslateAPI

from tests.page import translated

GERMAN = "Guten Morgen, wie geht es dir heute?"


def test_a_libretranslate_client_works_unchanged(url: str):
    client = LibreTranslateAPI(url)
    assert client.languages() == [
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": []},
    ]
    assert client.translate("ein hund", "de", "en") == translated("ein hund")
    assert client.translate(GERMAN, "auto", "en") == translated(GERMAN)


def test_pages_of_other_sites_may_ask(url: str):
    body = {"q": "ein hund", "source": "de", "target": "en"}
    asked = {"Origin": "https://example.org"}
    for answer in (
        httpx.post(f"{url}translate", content=json.dumps(body), headers=asked),  # sent as text
        httpx.post(f"{url}translate", data=body | {"target": "xx"}, headers=asked),
        httpx.get(f"{url}languages", headers=asked),
        httpx.get(f"{url}health", headers=asked),
    ):
        assert answer.headers["Access-Control-Allow-Origin"] == "*"


def test_the_fields_of_libretranslate_are_understood(url: str):
    def ask(**fields: object) -> dict[str, object]:
        answer = httpx.post(f"{url}translate", json={"source": "de", "target": "en", **fields})
        assert answer.status_code == 200, answer.text
        return answer.json()

    assert ask(q=["ein hund", ""]) == {"translatedText": [translated("ein hund"), ""]}
    found = ask(q=GERMAN, source="auto")
    assert found["detectedLanguage"]["language"] == "de"
    assert 50 < found["detectedLanguage"]["confidence"] <= 100
    query = {"q": "ein hund", "source": "de", "target": "en"}
    assert httpx.post(f"{url}translate", params=query).json() == {
        "translatedText": translated("ein hund")
    }


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"q": ""}, "nothing to translate"),
        ({"q": 3}, "q: Input should be a valid string"),
        (
            {"q": "a " * 6_000},
            "limit is 10,000; translate it as a file in the tab Files",
        ),
        ({"q": ["a"] * 501}, "at most 500 items"),
        ({"q": "a", "more": "x" * 300_000}, "larger than 256 KiB"),
        ({"q": "ein hund", "target": "xx"}, "no model translates de to xx; there are: de to en"),
        ({"q": "ein hund", "target": {}}, "target: Input should be a valid string"),
        ({"q": "ein hund", "format": "html"}, "format: Input should be 'text'"),
        ({"q": "ආයුබෝවන්", "source": "auto"}, "was not detected"),
        ([], "q: Field required; target: Field required"),
        ([1], "JSON object"),
    ],
)
def test_a_wrong_request_is_answered_with_its_reason(url: str, fields: object, said: str):
    body = {"source": "de", "target": "en", **fields} if isinstance(fields, dict) else fields
    answer = httpx.post(f"{url}translate", json=body)
    assert answer.status_code == 400
    assert said in answer.json()["error"]

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from libretranslatepy import LibreTranslateAPI

from hubnmt.checkpoint.description import FORMAT_VERSION, LIBRARY
from hubnmt.translator import Translator
from hubnmt.ui.gradio.request_limits import MAX_BODY_MIB
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.translate import Handlers
from tests.page import FakeTranslator, serving

GERMAN = "Guten Morgen, wie geht es dir heute?"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("de-en")
    config = FakeTranslator("first").config.to_dict()
    (folder / "config.json").write_text(
        json.dumps({"library": LIBRARY, "format_version": FORMAT_VERSION, **config})
    )
    with serving(Handlers(ModelRegistry(FakeTranslator, {"first": folder}))) as url:
        yield url


def test_a_libretranslate_client_works_unchanged(url: str):
    client = LibreTranslateAPI(url)
    assert client.languages() == [
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "en", "name": "English", "targets": []},
    ]
    assert client.detect(GERMAN)[0]["language"] == "de"
    assert client.translate("ein hund", "de", "en") == "EIN HUND"
    assert client.translate(GERMAN, "auto", "en") == GERMAN.upper()


def test_inline_tags_do_not_split_a_sentence(bundled_model: Path):
    translator = Translator.from_pretrained(bundled_model)
    handlers = Handlers(ModelRegistry(lambda _: translator, {"captions": bundled_model}))
    sentence = "Ein kleines Mädchen klettert in ein Spielhaus aus Holz."
    html = (
        '<p>Ein kleines <a href="#x">Mädchen</a> <i>klettert <b>in</b></i>\n'
        "ein <!-- c -->Spielhaus aus Holz<sup></sup>.</p><p><u>Zwei Frauen lachen.</u></p>"
    )
    with serving(handlers) as url:
        client = LibreTranslateAPI(url)
        whole, other = (
            client.translate(text, "de", "en") for text in (sentence, "Zwei Frauen lachen.")
        )
        answer = httpx.post(
            f"{url}translate", json={"q": html, "source": "de", "target": "en", "format": "html"}
        )
    found = answer.json()["translatedText"]
    assert re.sub("<.*?>", "", found) == whole + other
    tags = re.findall("<.*?>", html)
    assert sorted(re.findall("<.*?>", found)) == sorted(tags)
    assert '<a href="#x">girl</a>' in found
    assert f"<p><u>{other}</u></p>" in found
    assert re.search("<i>.*<b>.*</b>.*</i>", found)


def test_the_fields_of_libretranslate_are_understood(url: str):
    def ask(**fields: object) -> dict[str, object]:
        answer = httpx.post(f"{url}translate", json={"source": "de", "target": "en", **fields})
        assert answer.status_code == 200, answer.text
        return answer.json()

    assert ask(q=["ein hund", ""]) == {"translatedText": ["EIN HUND", ""]}
    assert ask(q="ein hund", alternatives=2) == {
        "translatedText": "EIN HUND",
        "alternatives": ["EIN HUND!", "EIN HUND!!"],
    }
    html = '<p class="a">ein &lt; hund<br/></p> <script>if (a<b) {}</script><!-- c -->'
    expected = '<p class="a">EIN &lt; HUND<br/></p> <script>if (a<b) {}</script><!-- c -->'
    assert ask(q=html, format="html") == {"translatedText": expected}
    found = ask(q=GERMAN, source="auto")
    assert found["detectedLanguage"]["language"] == "de"
    assert 50 < found["detectedLanguage"]["confidence"] <= 100
    query = {"q": "ein hund", "source": "de", "target": "en"}
    assert httpx.post(f"{url}translate", params=query).json() == {"translatedText": "EIN HUND"}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"q": ""}, "nothing to translate"),
        ({"q": 3}, "q must be"),
        ({"q": "a " * 6_000}, "the limit is 10,000"),
        ({"q": "<p>a</p>" * 600, "format": "html"}, "more than 500 texts"),
        ({"q": "ein hund", "target": "xx"}, "no model translates de to xx; there are: de to en"),
        ({"q": "ein hund", "target": {}}, "no model translates"),
        ({"q": "ein hund", "format": "pdf"}, "format must be"),
        ({"q": "ein hund", "alternatives": "many"}, "alternatives"),
        ({"q": "ආයුබෝවන්", "source": "auto"}, "was not detected"),
        ([], "nothing to translate"),
        ([1], "JSON object"),
    ],
)
def test_a_wrong_request_is_answered_with_its_reason(url: str, fields: object, said: str):
    body = {"source": "de", "target": "en", **fields} if isinstance(fields, dict) else fields
    answer = httpx.post(f"{url}translate", json=body)
    assert answer.status_code == 400
    assert said in answer.json()["error"]


def test_requests_are_limited_as_those_of_the_page(url: str):
    answer = httpx.post(f"{url}translate", content=b"q=" + b"x" * (MAX_BODY_MIB * 2**20))
    assert answer.status_code == 413

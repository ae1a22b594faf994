"""A type checker finds wrong calls of the public API, and no fault in right ones."""

from pathlib import Path

import pytest
from mypy import api

CALLS = """\
from hubnmt import Translator
from hubnmt.config import DecodingConfig
translator = Translator.from_pretrained("de-en")
translator.translate("Ja.", beam_size=3, max_new_tokens=None, prefix="Y").text
translator(["Ja."], decoding=DecodingConfig(beam_size=2), guard=False)[0].text
translator(text for text in ("Ja.", "Nein."))[1].text
translator.translate("Ja.", beam_sizee=3)  # wrong
translator.translate(["Ja."], beam_size="3")  # wrong
translator("Ja.", tempratur=3)  # wrong
translator.stream("Ja.", beam=3)  # wrong
translator.translate(3)  # wrong
translator.translate(["Ja."]).text  # wrong
translator.decoding.with_options(top_q=0.5)  # wrong
"""


@pytest.mark.slow
def test_a_type_checker_finds_wrong_calls(tmp_path: Path) -> None:
    path = tmp_path / "calls.py"
    path.write_text(CALLS, encoding="utf-8")
    said, _, _ = api.run([str(path), "--strict", "--no-pretty", "--no-error-summary"])
    found = {int(line.split(":")[1]) for line in said.splitlines() if ": error:" in line}
    wrong = {n for n, line in enumerate(CALLS.splitlines(), 1) if line.endswith("# wrong")}
    assert found == wrong, said

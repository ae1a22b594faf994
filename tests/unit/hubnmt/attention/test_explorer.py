"""What a notebook shows of maps and translations."""

import base64
import html
import json
import re
from pathlib import Path

import numpy as np

from hubnmt.attention.explorer import FULL_SCALE
from hubnmt.translator import Translator

MARKUP = "<img src=x onerror=alert(1)>"


def test_a_notebook_shows_the_maps_of_the_page_and_the_tokens(bundled_model: Path):
    translator = Translator.from_pretrained(bundled_model)
    translation = translator.translate("Ein Hund rennt im Schnee.")
    maps = translator.attend(translation.src, translation.n_best[0])
    (document,) = re.findall('srcdoc="([^"]*)"', maps._repr_html_())
    (figure,) = re.findall(r"\{ value: (.*) \}, \(\) =>", html.unescape(document))
    pieces = json.loads(figure)["units"]["pieces"]
    assert tuple(pieces["tgt"]) == maps.tgt_tokens
    weights = np.frombuffer(base64.b64decode(pieces["maps"]["cross"]["weights"]), dtype="<u2")
    np.testing.assert_allclose(
        weights.reshape(maps.cross.shape) / FULL_SCALE, maps.cross, atol=1e-4
    )
    shown = html.unescape(re.sub("<[^>]*>", "", translation._repr_html_()))
    assert shown.strip().startswith(translation.text)
    assert f"token probability {translation.token_probability:.0%}" in shown


def test_texts_in_a_notebook_are_escaped(bundled_model: Path):
    translator = Translator.from_pretrained(bundled_model)
    maps = translator.attend(MARKUP, MARKUP)
    assert "<img" not in maps._repr_html_()
    assert "<img" not in html.unescape(maps._repr_html_())

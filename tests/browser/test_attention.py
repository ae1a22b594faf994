"""Journeys through the attention explorer.

Every test also fails on a console message, a failed request, or one to another host.
"""

import csv
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

pytestmark = pytest.mark.browser

TEXT = "Ein kleines Mädchen klettert in ein Spielhaus aus Holz."
SVG = "{http://www.w3.org/2000/svg}"


def _picture(page: Any) -> list[str]:
    """What every cell of the heatmap says."""
    cells = page.locator(".explorer .map td[aria-label]")
    labels: list[str] = cells.evaluate_all("cells => cells.map((cell) => cell.ariaLabel)")
    return labels


def _words(page: Any, side: str) -> list[str]:
    words: list[str] = page.locator(f".explorer .{side} button").all_inner_texts()
    return words


def test_attention_is_explored_and_saved(visit: Any, tmp_path: Path):
    page = visit.page
    visit.translate(TEXT)
    visit.inside("Look inside")
    assert "".join(_words(page, "keys")) == TEXT.replace(" ", "") + "<eos>"
    n_keys, aligned = len(_words(page, "keys")), _picture(page)
    shares = [int(label.rstrip("%")) for label in aligned]
    assert len(shares) == n_keys * len(_words(page, "queries"))
    for start in range(0, len(shares), n_keys):
        assert sum(shares[start : start + n_keys]) == pytest.approx(100, abs=10)
    assert "Alignment head: layer 1, head 2" in page.inner_text(".explorer .view")
    girl = page.locator(".explorer .queries button", has_text=re.compile("^girl$"))
    for look in (girl.hover, girl.focus):
        look()
        page.wait_for_timeout(300)
        assert "girl" in page.inner_text(".explorer .looked")
        page.mouse.move(0, 0)
    girl.click()
    assert girl.get_attribute("aria-pressed") == "true"
    assert page.inner_text(".explorer .looked").startswith("“girl” attends most to “Mädchen”")
    assert "“Mädchen”" in page.inner_text(".explorer .readout .missed")
    assert page.locator(".explorer .threads path").count() > 0
    page.get_by_label("Average of all heads").click()
    average = _picture(page)
    assert average != aligned
    page.get_by_label("Layer 2, head 3", exact=True).click()
    assert _picture(page) not in (aligned, average)
    assert page.inner_text(".explorer .view") == "Layer 2, head 3"
    page.select_option(".explorer .kind", "encoder")
    assert len(_picture(page)) == n_keys**2
    page.select_option(".explorer .kind", "decoder")
    assert _words(page, "keys")[0] == "<bos>"
    page.select_option(".explorer .kind", "cross")
    before = page.locator(".explorer .line button").count()
    page.uncheck(".explorer .marks")
    assert page.locator(".explorer .line button").count() == before - 2
    page.check(".explorer .marks")
    visit.translate("Zwei Schwammtaucherinnen kichern.")
    visit.inside("Look inside")
    words = _words(page, "keys")
    page.select_option(".explorer .unit", "pieces")
    assert len(_words(page, "keys")) > len(words) == 5
    assert "".join(_words(page, "keys")) == "".join(words)
    page.select_option(".explorer .unit", "words")
    visit.translate("Ein Hund rennt. Zwei Katzen schlafen.")
    visit.inside("Look inside")
    whole = visit.target
    assert _words(page, "keys")[:2] == ["Ein", "Hund"]
    page.select_option("#sentences select", "1")
    page.wait_for_function("document.querySelector('.explorer .keys button').innerText === 'Zwei'")
    assert visit.target == whole
    visit.inside("Steer")
    assert page.locator(".steering .words button").first.inner_text() == "Two"
    visit.translate('Ein Hund sagt =1+1 "er", oder.')
    visit.inside("Look inside")
    page.uncheck(".explorer .marks")
    files = {}
    for kind in ("png", "svg", "csv", "json"):
        with page.expect_download() as download:
            page.get_by_role("button", name=kind.upper(), exact=True).click()
        assert download.value.suggested_filename == f"attention.{kind}"
        files[kind] = tmp_path / f"attention.{kind}"
        download.value.save_as(files[kind])
    assert files["png"].read_bytes().startswith(b"\x89PNG")
    assert files["png"].stat().st_size > 5_000
    rows, columns = _words(page, "queries"), _words(page, "keys")
    drawn = ElementTree.parse(files["svg"])
    assert {*rows, *columns} <= {node.text for node in drawn.iter(f"{SVG}text")}
    with files["csv"].open(encoding="utf-8", newline="") as file:
        head, *lines = csv.reader(file)
    # A spreadsheet would run a word that begins like a formula.
    assert "'=" in head
    assert [name.removeprefix("'") for name in head[1:]] == columns
    numbers = json.loads(files["json"].read_text("utf-8"))
    assert numbers["weights"] == [[float(cell) for cell in line[1:]] for line in lines]
    assert len(numbers["left_out"][0]) == len(columns)


@pytest.mark.parametrize("visit", ["phone dark"], indirect=True)
def test_scripts_run_as_they_are_written(visit: Any, tmp_path: Path):
    page = visit.page
    visit.translate("ഒരു നായ മഞ്ഞിൽ.")
    visit.inside("Look inside")
    assert _words(page, "keys") == ["ഒരു", "നായ", "മഞ്ഞിൽ", ".", "<eos>"]
    with page.expect_download() as download:
        page.get_by_role("button", name="SVG").click()
    download.value.save_as(tmp_path / "a.svg")
    assert "മഞ്ഞിൽ" in (tmp_path / "a.svg").read_text("utf-8")
    page.select_option(".explorer .unit", "characters")
    assert "ഞ്ഞി" in "".join(_words(page, "keys"))
    page.select_option(".explorer .unit", "words")
    visit.translate("كلب يركض في الثلج.")
    visit.inside("Look inside")
    for tab, name, language, direction in (
        ("Look inside", "keys", "de", "rtl"),
        ("Look inside", "queries", "en", "ltr"),
        ("Steer", "steering .words", "en", "ltr"),
    ):
        visit.inside(tab)
        drawn = page.locator(f".{name}")
        assert drawn.get_attribute("lang") == language
        assert drawn.evaluate("line => getComputedStyle(line).direction") == direction
    visit.keep_picture("right-to-left")
    visit.translate("Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamten" * 2)
    visit.inside("Look inside")
    assert visit.fits
    visit.learn()
    for text, is_rtl in (("كلب يركض", True), ("Hunde 3", False), ("كلب يركض في الثلج.", True)):
        page.fill("#pieces-text textarea", text)
        page.wait_for_function(
            "text => document.querySelector('#pieces .words span[hidden]')?.textContent === text",
            arg=text,
        )
        page.locator("#pieces .step").fill("0")
        pieces = page.locator("#pieces .word").first.locator(".piece")
        for each in (page.locator("#pieces .word"), pieces):
            first, second = (each.nth(n).bounding_box() for n in (0, 1))
            assert (first["x"] > second["x"]) == is_rtl
    visit.keep_picture("pieces-right-to-left")

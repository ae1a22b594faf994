"""Words of a dictionary get their forms from the real libraries, where these are installed."""

import importlib.util
from pathlib import Path

import pytest

from training.augment.synthetic_pairs import main as fill_frames
from training.augment.word_tables import INSTALL, PACKAGES, main

MISSING = [package for package in PACKAGES if not importlib.util.find_spec(package)]

GERMAN = (
    "car Auto, umbrella Regenschirm, teacher Lehrer, student Student, dog Hund, lion Löwe, "
    "information Information, advice Rat, find finden, open aufmachen, kiss küssen, love lieben, "
    "expensive teuer, dark dunkel, hour Stunde, time Zeit, places Orte, car Zzz"
)
FRENCH = (
    "car voiture, umbrella parapluie, teacher enseignante, child enfant, dog chien, cow vache, "
    "information information, advice conseil, find trouver, open ouvrir, kiss embrasser, "
    "love aimer, expensive coûteux, ugly laid, hour heure, time temps, places lieux, car zzz"
)
GERMAN_FORMS = {
    "Regenschirm": {"field": "noun thing", "en.art": "an", "de.einen": "einen"},
    "Löwe": {"field": "noun animal", "en.pl": "lions", "de.acc": "Löwen", "de.den": "den"},
    "Rat": {"field": "mass", "de.gen": "Rates"},
    "Stunde": {"field": "noun", "en.art": "an", "de.dem": "der", "de.pldat": "Stunden"},
    "aufmachen": {"field": "verb", "de.zu": "aufzumachen", "de.end": " auf.", "de.sub": "aufmacht"},
    "finden": {"en.past": "found", "de.past": "fand", "de.pp": "gefunden", "de.q": "?"},
    "küssen": {"field": "verb pverb"},
    "teuer": {"field": "adj", "de.st": "teur"},
    "dunkel": {"en.art": "a", "de.st": "dunkl"},
}
FRENCH_FORMS = {
    "voiture": {"field": "noun thing fem", "fr.du": "de la voiture", "fr.pl": "voitures"},
    "chien": {"field": "noun animal masc", "fr.au": "au chien"},
    "enfant": {"fr.le": "l'enfant", "fr.ce": "cet enfant", "fr.de": "d'enfants"},
    "information": {"field": "mass", "fr.mon": "mon information"},
    "ouvrir": {"field": "verb", "fr.leil": "l'ouvre", "fr.ppf": "ouverte", "fr.will": "ouvrira"},
    "laid": {"field": "adj", "fr.f": "laide"},
}


@pytest.mark.skipif(bool(MISSING), reason=f"needs {' '.join(MISSING)}")
@pytest.mark.parametrize(
    ("language", "words", "forms", "frames"),
    [
        ("de", GERMAN, GERMAN_FORMS, "frames-words-de-en.tsv"),
        ("fr", FRENCH, FRENCH_FORMS, "frames-words-en-fr.tsv"),
    ],
)
def test_words_have_forms_that_fill_the_frames(
    language: str,
    words: str,
    forms: dict[str, dict[str, str]],
    frames: str,
    tmp_path: Path,
    repo: Path,
) -> None:
    dictionary, table, without = (tmp_path / name for name in ("d.tsv", "t.tsv", "without.txt"))
    pairs = [f"en {language}", *words.split(", ")]
    dictionary.write_text("".join("\t".join(pair.split()) + "\n" for pair in pairs), "utf-8")
    without.write_text("Zeit\ntemps\n", "utf-8")
    assert main([str(dictionary), "--without", str(without), "--output", str(table)]) == 0

    header, *rows = (line.split("\t") for line in table.read_text("utf-8").splitlines())
    found = {row[2]: dict(zip(header, row, strict=True)) for row in rows}
    unwanted = {"Zeit", "Orte", "Zzz", "temps", "lieux", "zzz", "heure"}
    assert {*found} == {pair.split()[1] for pair in pairs[1:]} - unwanted
    for word, expected in forms.items():
        assert {name: found[word][name] for name in expected} == expected

    pytest.importorskip("faker")
    command = [str(repo / "training/phrasebook" / frames), "--words", str(table), "--times", "3"]
    assert fill_frames([*command, "--output", str(tmp_path / "filled.tsv")]) == 0


@pytest.mark.parametrize(
    ("language", "message"),
    [("ml", "must be en and de, or en and fr")]
    + [("de", f"{package} is missing: {INSTALL}") for package in MISSING[:1]],
)
def test_what_cannot_be_made_is_refused(
    language: str, message: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "d.tsv").write_text(f"en\t{language}\nhouse\tHaus\n", "utf-8")
    assert main([str(tmp_path / "d.tsv"), "--output", str(tmp_path / "t.tsv")]) == 2
    assert message in caplog.text

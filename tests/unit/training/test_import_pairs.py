import tomllib
import zipfile
from pathlib import Path

import pytest

from training.config.data import CorpusConfig
from training.config.recipe import load_recipe
from training.import_pairs import import_pairs, main, pick_columns, read_table, split_pairs
from training.suggest import suggest

GERMAN = [f"Der Hund Nummer {n} rennt heute schnell durch den Schnee." for n in range(40)]
ENGLISH = [f"The dog number {n} is running through the snow today." for n in range(40)]


def test_a_table_is_read_cleaned_and_split_and_its_recipe_is_valid(tmp_path: Path):
    rows = [f'{n};"{de}";"{en}"' for n, (de, en) in enumerate(zip(GERMAN, ENGLISH, strict=True))]
    rows += [rows[0], '41;"";"Nothing."', '42;"Same text.";"Same text."']
    table = tmp_path / "export.csv"
    table.write_text("\n".join(rows), encoding="utf-8-sig")
    pairs = pick_columns(*read_table(CorpusConfig(files=(str(table),)), ()), ())
    report = import_pairs(tmp_path, pairs, note='The "old" table')
    assert report["languages"] == ["de", "en"]
    assert report["summary"].startswith("40 of 43 pairs are usable: 36 to learn from and 4 to")
    assert ("1 dropped: source = target", "Same text.", "Same text.") in report["examples"]
    for options in ({}, {"start": "de-en", "part": "model"}, {"start": "de-en", "part": "encoder"}):
        recipe = load_recipe(tomllib.loads(suggest(tmp_path, name="first", minutes=3, **options)))
        assert recipe.run.max_minutes == 3
        assert recipe.card.data == 'The "old" table'


def test_columns_and_a_zip_are_taken_as_named(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    table = "de\tnote\ten\n" + "".join(
        f"{de}\ta long remark about this sentence, longer than both of its sides\t{en}\n"
        for de, en in zip(GERMAN, ENGLISH, strict=True)
    )
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("../../outside.tsv", table)
    status = main([str(tmp_path / "out"), str(tmp_path / "all.zip"), "--columns", "en", "de"])
    assert status == 0
    header, first, *_ = (tmp_path / "out" / "train.tsv").read_text(encoding="utf-8").splitlines()
    assert header == "en\tde"
    assert first.startswith("The dog")
    assert not (tmp_path.parent / "outside.tsv").exists()
    assert main([str(tmp_path / "out"), str(tmp_path / "all.zip"), "--columns", "de", "fr"]) == 2
    assert "no column 'fr'; its first line is: de, note, en" in caplog.text


def test_no_sentence_is_on_both_sides_of_the_split():
    pairs = [(f"a{n // 2}", f"b{(n + 1) // 2}!") for n in range(10)]  # one chain
    pairs += [(f"c{n // 3}", f"d{n}") for n in range(60)]
    train, valid = split_pairs(pairs)
    assert len(valid) == 7
    assert 60 <= len(train) <= 63
    for side in (0, 1):
        assert not {pair[side] for pair in train} & {pair[side] for pair in valid}

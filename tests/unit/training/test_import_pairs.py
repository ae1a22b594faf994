import gzip
import json
import zipfile
from pathlib import Path

import pytest

from training.config.recipe import load_recipe
from training.import_pairs import main, split_pairs

GERMAN = [f"Der Hund Nummer {n} rennt heute schnell durch den Schnee." for n in range(40)]
ENGLISH = [f"The dog number {n} is running through the snow today." for n in range(40)]


def test_a_table_is_read_cleaned_and_split_and_its_recipe_is_valid(tmp_path: Path):
    rows = [f'{n};"{de}";"{en}"' for n, (de, en) in enumerate(zip(GERMAN, ENGLISH, strict=True))]
    rows += [rows[0], '41;"";"Nothing."', '42;"Same text.";"Same text."']
    table, out = tmp_path / "export.csv", tmp_path / "out"
    table.write_text("\n".join(rows), encoding="utf-8-sig")
    assert main([str(out), str(table), "--note", 'The "old" table']) == 0
    report = json.loads((out / "report.json").read_text("utf-8"))
    assert report["languages"] == ["de", "en"]
    assert report["summary"].startswith("40 of 43 pairs are usable: 36 to learn from and 4 to")
    assert "| 1 dropped: source = target | Same text. | Same text. |" in report["summary"]
    for options in ([], ["--start", "de-en"], ["--start", "de-en", "--part", "encoder"]):
        assert main([str(out), "--minutes", "3", *options]) == 0
        recipe = load_recipe(out / "recipe.toml")
        assert recipe.run.max_minutes == 3
        assert recipe.card.data == 'The "old" table'


def test_columns_languages_and_a_zip_are_taken_as_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    table = "de\tnote\ten\n" + "".join(
        f"{de}\ta long remark about this sentence, longer than both of its sides\t{en}\n"
        for de, en in zip(GERMAN, ENGLISH, strict=True)
    )
    with zipfile.ZipFile(tmp_path / "ALL.ZIP", "w") as archive:
        archive.writestr("../../outside.TSV.GZ", gzip.compress(table.encode()))
    words, made = [str(tmp_path / "out"), str(tmp_path / "ALL.ZIP")], tmp_path / "out" / "train.tsv"
    assert main([*words, "--columns", "en", "de"]) == 0
    header, first, *_ = made.read_text(encoding="utf-8").splitlines()
    assert header == "en\tde"
    assert first.startswith("The dog")
    assert not (tmp_path.parent / "outside.TSV.GZ").exists()
    assert main([*words, "--columns", "de", "fr"]) == 2
    assert "no column 'fr'; its first line is: de, note, en" in caplog.text
    (tmp_path / "all.de").write_text("\n".join(GERMAN))
    (tmp_path / "all.en").write_text("\n".join(ENGLISH))
    words[1:] = [str(tmp_path / "all.de"), str(tmp_path / "all.en")]
    assert main([*words, "--languages", "en", "de"]) == 0  # the other direction
    assert made.read_text(encoding="utf-8").startswith("en\tde\nThe dog")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "two columns of text"),
        ("hello\nworld\n", "two columns of text"),
        ('de,en\nHund,dog\n"Katze,cat\nHaus,house\n', "line 3: a quotation mark is never closed"),
    ],
)
def test_a_table_without_two_columns_is_refused(
    text: str, message: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "one.csv").write_text(text)
    assert main([str(tmp_path / "out"), str(tmp_path / "one.csv")]) == 2
    assert message in caplog.text


def test_no_sentence_is_on_both_sides_of_the_split():
    pairs = [(f"a{n // 2}", f"b{(n + 1) // 2}!") for n in range(10)]  # one chain
    pairs += [(f"c{n // 3}", f"d{n}") for n in range(60)]
    train, valid = split_pairs(pairs)
    assert len(valid) == 7
    assert 60 <= len(train) <= 63
    for side in (0, 1):
        assert not {pair[side] for pair in train} & {pair[side] for pair in valid}


def test_pairs_of_one_source_stay_together():
    train, valid = split_pairs([(f"a{n // 4}", f"b{n}") for n in range(60)])
    assert (len(train), len(valid)) == (56, 4)

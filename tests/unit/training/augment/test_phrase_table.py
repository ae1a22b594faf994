"""The phrase book: what stands for what, alone, as the sentences have it."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runs import FarmOptions
from training.augment.phrase_table import main
from training.config.recipe import load_recipe
from training.data.cleaning import CleaningReport
from training.data.corpora import read_clean


@pytest.fixture
def call(
    farm_recipe: Path, farm_options: FarmOptions, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> Callable[..., int]:
    caplog.set_level(logging.INFO)

    def run(*options: str, output: str = "phrases.tsv") -> int:
        sets = [word for each in farm_options(tmp_path) for word in ("--set", each)]
        return main([str(farm_recipe), *sets, "--output", str(tmp_path / output), *options])

    return run


def test_a_recipe_takes_the_table_as_a_corpus(
    call: Callable[..., int],
    farm_recipe: Path,
    farm_options: FarmOptions,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert call() == 0
    table = tmp_path / "phrases.tsv"
    head, *rows = [line.split("\t") for line in table.read_text(encoding="utf-8").splitlines()]
    assert head == ["de", "en", "count"]
    assert rows
    assert all(int(count) >= 3 for _, _, count in rows)
    assert f"{len(rows):,} phrases" in caplog.text
    options = farm_options(tmp_path, f"data.corpora.phrases.files={table}")
    report = CleaningReport()
    kept = [
        (pair.src, pair.tgt)
        for pair in read_clean(load_recipe(farm_recipe, options).data, report)
        if pair.corpus == 1
    ]
    assert report.read["phrases"] == len(rows)
    assert kept
    assert set(kept) <= {(src, tgt) for src, tgt, _ in rows}

"""A user's mistake before or in a training run: one line, status 2, and no harm done."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runs import FarmOptions, as_flags
from training.train import main

Train = Callable[..., int]
OneLine = Callable[[], str]


@pytest.fixture
def train(farm_recipe: Path, farm_options: FarmOptions, tmp_path: Path) -> Train:
    """Give the command as a user does."""

    def call(*settings: str, resume: Path | None = None) -> int:
        options = farm_options(tmp_path / "runs", "run.max_steps=1", *settings)
        extra = ["--resume", str(resume)] if resume else []
        return main([str(farm_recipe), *as_flags(options), *extra])

    return call


@pytest.fixture
def one_line(capsys: pytest.CaptureFixture[str]) -> OneLine:
    """Read standard error, which must be one line that begins with `error:`."""

    def read() -> str:
        captured = capsys.readouterr()
        assert captured.out == ""
        lines = captured.err.splitlines()
        assert len(lines) == 1, captured.err
        assert lines[0].startswith("error: ")
        return lines[0]

    return read


TABLES = {
    "header.tsv": "a\tb\tc\n1\t2\t3\n",
    "other.csv": "de,fr\neins,un\n",
    "names.jsonl": '{"de": "x", "text": "y"}\n',
    "torn.jsonl": "{\n",
    "x.parquet": "no parquet",
    "x.tsv.gz": "no gzip",
    "x.xlsx": "",
}
MISTAKES = {
    "run.max_step=3": "'max_step' (did you mean 'max_steps'?)",
    "run.device=gpu": "'gpu' cannot be used",
    "data.max_tokens=1": "nothing to train on",
    "data.train=none.de,none.en": "none.de: cannot be read",
    "data.train={farm}.train.de,{farm}.valid.en": "farm.train.de has 120 lines and ",
    "data.train={at}/header.tsv": "no column 'de' or 'en'; its first line is: a, b, c",
    "data.train={at}/other.csv": "other.csv: no column 'en'; its first line is: de, fr",
    "data.train={at}/names.jsonl": "no column 'en'; its columns: de, text; set",
    "data.train={at}/torn.jsonl": "torn.jsonl, line 1: not JSON",
    "data.train={at}/x.parquet": "x.parquet cannot be loaded: Parquet magic bytes",
    "data.train={at}/x.tsv.gz": "x.tsv.gz: incomplete or not a gzip file",
    "data.train={at}/x.xlsx": "x.xlsx has no matching translation file: set two",
}


@pytest.mark.parametrize(("setting", "message"), MISTAKES.items(), ids=MISTAKES)
def test_a_bad_setting_or_table_is_refused_and_leaves_nothing(
    setting: str,
    message: str,
    train: Train,
    one_line: OneLine,
    farm_recipe: Path,
    tmp_path: Path,
) -> None:
    for name, content in TABLES.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    assert train(setting.format(at=tmp_path, farm=farm_recipe.with_suffix(""))) == 2
    assert message in one_line()
    assert not (tmp_path / "runs" / "farm").exists()


@pytest.mark.parametrize(
    "content", [None, b"\x89PNG\r\n\x1a\n\0\xff", b"run = [", b"run = 3\nmodel = 4\n"]
)
def test_a_file_that_is_no_recipe_is_named(
    content: bytes | None, tmp_path: Path, one_line: OneLine
) -> None:
    path = tmp_path / "mine.toml"
    if content is not None:
        path.write_bytes(content)
    assert main([str(path)]) == 2
    assert str(path) in one_line()


def snapshot(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_is_not_overwritten_nor_resumed_with_another_recipe_or_damaged(
    train: Train, one_line: OneLine, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert train() == 0
    run = tmp_path / "runs" / "farm"
    before = snapshot(run)
    capsys.readouterr()
    assert train() == 2
    line = one_line()
    assert f"resume it with --resume {run}" in line
    assert "run.name=" in line
    for setting, difference in (
        ("optimizer.lr=0.5", "optimizer.lr was 0.01, is 0.5"),
        ("model.dropout=0", "model.dropout was 0.2, is 0"),
        ("data.max_tokens=39", "data.max_tokens was 40, is 39"),
    ):
        assert train(setting, resume=run) == 2
        assert difference in one_line()
    assert snapshot(run) == before
    for name, n_bytes, said in (
        ("state.pt", 0, "state.pt: damaged, or not a state of this run"),
        ("tokenizer.json", 200, "tokenizer.json: not a tokenizer file"),
    ):
        (run / name).write_bytes(before[run / name][:n_bytes])
        assert train("run.max_steps=2", resume=run) == 2
        assert said in one_line()
        (run / name).write_bytes(before[run / name])

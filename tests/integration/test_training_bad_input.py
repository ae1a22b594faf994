"""A user's mistake before or in a training run: one line, status 2, and no harm done."""

from collections.abc import Callable
from pathlib import Path

import pytest

from training.train import main


class Desk:
    """A folder with a recipe and its texts, and the command as a user gives it."""

    def __init__(self, folder: Path, repo: Path) -> None:
        self.folder = folder
        self.repo = repo
        fixtures = repo / "tests" / "fixtures"
        for file in fixtures.glob("farm.*"):
            (folder / file.name).write_bytes(file.read_bytes())

    def words(self, *settings: str) -> list[str]:
        usual = [
            f"run.folder={self.folder / 'runs'}",
            "run.max_steps=1",
            *(
                f"data.{split}={self.folder}/farm.{split}.de,{self.folder}/farm.{split}.en"
                for split in ("train", "valid")
            ),
        ]
        sets = [word for setting in (*usual, *settings) for word in ("--set", setting)]
        return [str(self.folder / "farm.toml"), *sets]

    def train(self, *settings: str, extra: tuple[str, ...] = ()) -> int:
        return main([*self.words(*settings), *extra])


@pytest.fixture
def desk(tmp_path: Path, repo: Path) -> Desk:
    return Desk(tmp_path, repo)


@pytest.fixture
def one_line(capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """Read standard error, which must be one line that begins with `error:`."""

    def read() -> str:
        captured = capsys.readouterr()
        assert captured.out == ""
        lines = captured.err.splitlines()
        assert len(lines) == 1, captured.err
        assert lines[0].startswith("error: ")
        return lines[0]

    return read


OneLine = Callable[[], str]

SETTINGS = [
    ("run.max_step=3", "'max_step' (did you mean 'max_steps'?)"),
    ("data.train=none.de,none.en", "none.de: cannot be read"),
    ("data.max_tokens=1", "nothing to train on"),
    ("tokenizer.vocab_size=10", "vocab_size = 10 must be at least 259"),
    ("run.device=gpu", "'gpu' is not a device; use auto, cpu or cuda"),
]


@pytest.mark.parametrize(("setting", "message"), SETTINGS, ids=[s for s, _ in SETTINGS])
def test_a_bad_setting_is_refused_and_leaves_nothing(
    setting: str, message: str, desk: Desk, one_line: OneLine
) -> None:
    assert desk.train(setting) == 2
    assert message in one_line()
    assert not (desk.folder / "runs" / "farm").exists()


# --- the recipe ----------------------------------------------------------------------------------


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


# --- the texts -----------------------------------------------------------------------------------


def test_files_of_different_length_are_refused_with_both_counts(
    desk: Desk, one_line: OneLine
) -> None:
    with (desk.folder / "farm.train.en").open("a", encoding="utf-8") as file:
        file.write("One more.\n")
    assert desk.train() == 2
    line = one_line()
    assert "farm.train.de has 120 lines" in line
    assert "farm.train.en has 121" in line


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.tsv", "a\tb\tc\n1\t2\t3\n", "no column 'de' or 'en'; its first line is: a, b, c"),
        ("x.csv", "de,fr\neins,un\n", "x.csv: no column 'en'; its first line is: de, fr"),
        ("x.jsonl", '{"de": "x", "text": "y"}\n', "no column 'en'; its columns: de, text; set"),
        ("x.jsonl", "{\n", "x.jsonl, line 1: not JSON"),
        ("x.parquet", "no parquet", "x.parquet cannot be loaded: Parquet magic bytes"),
        ("x.tsv.gz", "no gzip", "x.tsv.gz: incomplete or not a gzip file"),
        ("x.xlsx", "", "x.xlsx has no matching translation file: set two text files, SRC,TGT, or"),
    ],
)
def test_a_table_that_cannot_be_used_is_named(
    name: str, content: str, message: str, desk: Desk, one_line: OneLine
) -> None:
    (desk.folder / name).write_text(content, encoding="utf-8")
    if name == "x.csv":
        desk_settings = (f"data.train={desk.folder / name}", "data.src_column=de")
    else:
        desk_settings = (f"data.train={desk.folder / name}",)
    assert desk.train(*desk_settings) == 2
    assert message in one_line()


# --- the run folder ------------------------------------------------------------------------------


def snapshot(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_is_not_overwritten_nor_resumed_with_another_recipe_or_damaged(
    desk: Desk, one_line: OneLine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert desk.train() == 0
    run = desk.folder / "runs" / "farm"
    resume = ("--resume", str(run))
    before = snapshot(run)
    capsys.readouterr()
    assert desk.train() == 2
    line = one_line()
    assert f"resume it with --resume {run}" in line
    assert "run.name=" in line
    for setting, difference in (
        ("optimizer.lr=0.5", "optimizer.lr was 0.01, is 0.5"),
        ("model.dropout=0", "model.dropout was 0.2, is 0"),
        ("data.max_tokens=39", "data.max_tokens was 40, is 39"),
    ):
        assert desk.train(setting, extra=resume) == 2
        assert difference in one_line()
    assert snapshot(run) == before
    for name, n_bytes, said in (
        ("state.pt", 0, "state.pt: damaged, or not a state of this run"),
        ("tokenizer.json", 200, "tokenizer.json: not a tokenizer file"),
    ):
        (run / name).write_bytes(before[run / name][:n_bytes])
        assert desk.train("run.max_steps=2", extra=resume) == 2
        assert said in one_line()
        (run / name).write_bytes(before[run / name])

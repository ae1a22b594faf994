"""Every script of `tests/benchmarks` runs and prints its table: on tiny models and a few lines."""

import contextlib
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[1] / "benchmarks"
FIXTURES = Path(__file__).parents[1] / "fixtures"
PAIR = [str(FIXTURES / f"farm.valid.{side}") for side in ("de", "en")]
FARM = str(FIXTURES / "farm.toml")
TRAIN = ",".join(str(FIXTURES / f"farm.train.{side}") for side in ("de", "en"))
TEXTS = [f"data.train={TRAIN}", f"data.valid={','.join(PAIR)}"]
SET = [word for each in TEXTS for word in ("--set", each)]

SCRIPTS: dict[str, tuple[list[str], str]] = {
    # script: (arguments, what its output says)
    "check": (["fr-en"], "| fr-en |"),
    "decode": (
        [
            *("--threads", "1", "--shapes", "toy", "--rounds", "1"),
            *("--model", "{model}", "--text", PAIR[0]),
        ],
        "farm.valid.de, 12 lines, beam 4 | tokens/s",
    ),
    "names": (["{model}", "--times", "1"], "| all spans |"),
    "phrases": (["{model}", "phrases.tsv"], "of 1 right"),
    "race": ([FARM, "--goal", "0", "--valid", *PAIR, "--test", *PAIR, *SET[:2]], "test BLEU"),
    "soak": (["--minutes", "0.05", "--visitors", "2", "--crowd", "3"], "median wait"),
    "train": (
        [
            *("--train", *PAIR, "--threads", "1", "--dtypes", "float32"),
            *("--batch-tokens", "60", "--batches", "1", "--rounds", "1"),
        ],
        "| hubnmt |",
    ),
    "words": (["{model}", "--dictionary", "words.tsv", "--known", PAIR[1]], "of 1: right"),
}


def test_no_script_is_left_out() -> None:
    modules = {"keystrokes", "systems", "tables", "visitors"}  # the first has a test below
    assert {path.stem for path in FOLDER.glob("*.py")} == set(SCRIPTS) | modules


@pytest.mark.filterwarnings("ignore:enable_nested_tensor:UserWarning")  # of torch, in a peer
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_prints_its_table(
    name: str,
    model_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setenv("PYTHONPATH", str(FOLDER.parents[1]))
    Path("phrases.tsv").write_text("src\taccepted\nDanke\tThanks | Thank you\n", encoding="utf-8")
    Path("words.tsv").write_text("en\tde\nhorse\tPferd\n", encoding="utf-8")
    arguments, said = SCRIPTS[name]
    given = [each.format(model=model_folder) for each in arguments]
    monkeypatch.setattr(sys, "argv", [name, *given])
    with contextlib.suppress(SystemExit):  # typer's end
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    assert said in capsys.readouterr().out


@pytest.mark.usefixtures("bundled_model")
def test_the_benchmark_in_the_browser_prints_its_table(
    repo: Path, environment: dict[str, str]
) -> None:
    """In a process of its own, because one process has one browser only."""
    done = subprocess.run(
        [sys.executable, FOLDER / "keystrokes.py", "--words", "2"],
        env=environment | {"PYTHONPATH": str(repo)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "| to the whole translation |" in done.stdout

"""The package also works installed: from a built wheel, away from the checkout."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.environments import borrow_environment, served

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel with the backend that is already here, so that nothing is downloaded."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
    command = [sys.executable, "-m", "pip", "wheel", *options, "-w", str(folder), str(repo)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=120)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return borrow_environment(tmp_path_factory.mktemp("elsewhere") / "env", wheel)


@pytest.fixture
def run(installed: Path, tmp_path: Path, environment: dict[str, str]) -> Callable[..., str]:
    """Run an installed program in an empty folder and return its standard output."""

    def run_installed(program: str, *arguments: str) -> str:
        done = subprocess.run(
            [installed / program, *arguments],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run_installed


def test_the_wheel_holds_every_file_of_the_package(wheel: Path, repo: Path):
    package = [f for f in (repo / "hubnmt").rglob("*") if f.is_file() and f.suffix != ".pyc"]
    ours = {file.relative_to(repo).as_posix() for file in package}
    assert ours - set(zipfile.ZipFile(wheel).namelist()) == set()


def test_the_installed_package_runs_with_what_a_space_needs(
    run: Callable[..., str], repo: Path, installed: Path
):
    code = "import hubnmt; from hubnmt.hub.space import find_beside; print(hubnmt.__file__)"
    names = ("app.py", "requirements.txt", "README.md")
    lines = run("python", "-c", f"{code}; [print(find_beside(name)) for name in {names}]")
    package, *carried = map(Path, lines.splitlines())
    assert package.is_relative_to(installed.parent)
    for name, path in zip(names, carried, strict=True):
        assert path.is_relative_to(installed.parent)
        assert path.read_bytes() == (repo / name).read_bytes()


@pytest.mark.usefixtures("bundled_model")
def test_the_command_translates_anywhere(run: Callable[..., str]):
    sentence = "Ein Hund rennt im Schnee."
    line = run("hubnmt", "translate", sentence, "--model", "de-en-multi30k", "--json")
    answer = json.loads(line)
    assert answer["src"] == sentence
    assert "dog" in answer["text"].lower()


@pytest.mark.usefixtures("bundled_model")
def test_the_command_opens_the_page_anywhere(
    installed: Path, tmp_path: Path, environment: dict[str, str]
):
    command = [installed / "hubnmt", "app", "--model", "de-en-multi30k"]
    with served(command, tmp_path, environment, tmp_path / "log.txt"):
        pass

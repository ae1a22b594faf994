"""Every module has its twin among the tests, and every test file its module."""

from pathlib import Path

import pytest

ABOUT_THE_TREE = {
    "test_architecture",
    "test_mirror",
    "test_network_guard",
    "test_packaging",
    "test_phrase_lists",
}
"""Test files of `tests/unit` that look at the whole tree, not at one module."""


def expected_twin(module: str) -> str:
    """Name the test file of a module: `hubnmt/model/cache.py` to `hubnmt/model/test_cache.py`."""
    path = Path(module)
    return path.with_name(f"test_{path.stem.strip('_')}.py").as_posix()


@pytest.fixture(scope="module")
def twins(repo: Path) -> dict[str, str]:
    """Map each test file that should exist to the file it is for; `__init__` only lists names."""
    files = [*repo.glob("hubnmt/**/*.py"), *repo.glob("training/**/*.py"), *repo.glob("app.py")]
    modules = [f.relative_to(repo).as_posix() for f in files if f.name != "__init__.py"]
    modules.remove("hubnmt/docs/tour.py")  # a notebook, which `integration/test_tour.py` runs
    readmes = [f.relative_to(repo).as_posix().lower() for f in repo.glob("hubnmt/model/README.md")]
    return {expected_twin(file): file for file in modules + readmes}


@pytest.fixture(scope="module")
def present(repo: Path) -> set[str]:
    """List the test files that exist."""
    unit = repo / "tests" / "unit"
    found = {file.relative_to(unit).as_posix() for file in unit.rglob("test_*.py")}
    return found - {f"{name}.py" for name in ABOUT_THE_TREE}


def test_every_module_has_a_test_file(twins: dict[str, str], present: set[str]):
    assert sorted(set(twins) - present) == []


def test_every_test_file_has_a_module(twins: dict[str, str], present: set[str]):
    assert sorted(present - set(twins)) == []


@pytest.mark.parametrize(
    ("module", "twin"),
    [
        ("app.py", "test_app.py"),
        ("hubnmt/__main__.py", "hubnmt/test_main.py"),
        ("hubnmt/model/cache.py", "hubnmt/model/test_cache.py"),
        ("hubnmt/model/readme.md", "hubnmt/model/test_readme.py"),
    ],
)
def test_twins_are_named_after_their_module(module: str, twin: str):
    assert expected_twin(module) == twin

"""What pyproject, requirements, README and code say about the package agrees."""

import ast
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

import hubnmt

VISIBLE = {"LICENSE", "README.md", "pyproject.toml", "requirements.txt", "app.py"}
VISIBLE |= {"hubnmt", "tests", "training"}

EXTRAS_OF = {
    "hubnmt/inference/ctranslate2_export.py": ["fast"],
    "hubnmt/ui": ["app"],
    "app.py": ["app"],
    "training": ["train"],
    "training/augment/word_tables.py": ["words"],
}
"""Which extras a file or folder may import from, beside the core."""


@pytest.fixture(scope="module")
def project(repo: Path) -> dict[str, Any]:
    return tomllib.loads((repo / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def ranges(project: dict[str, Any]) -> dict[str, dict[str, SpecifierSet]]:
    """Map `core` and each extra to its packages and their allowed versions."""
    groups = {"core": project["dependencies"], **project["optional-dependencies"]}
    return {
        group: {canonicalize_name(r.name): r.specifier for r in map(Requirement, lines)}
        for group, lines in groups.items()
    }


@pytest.fixture(scope="module")
def pins(repo: Path) -> dict[str, Version]:
    """Map each package of requirements.txt to its one version."""
    lines = (repo / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): Version(version) for name, version in pairs}


@pytest.fixture(scope="module")
def front_matter(repo: Path) -> dict[str, str]:
    """Read the settings of the Space at the top of the README."""
    _, block, _ = (repo / "README.md").read_text(encoding="utf-8").split("---\n", maxsplit=2)
    return dict(yaml.safe_load(block))


def test_requirements_are_core_app_and_fast(pins: dict[str, Version], ranges: dict[str, Any]):
    assert set(pins) == set(ranges["core"]) | set(ranges["app"]) | set(ranges["fast"])


def test_each_pin_is_in_its_range(pins: dict[str, Version], ranges: dict[str, Any]):
    allowed = ranges["core"] | ranges["app"] | ranges["fast"]
    assert [name for name, pin in pins.items() if pin not in allowed[name]] == []


def test_the_settings_of_the_space_agree_with_the_package(
    front_matter: dict[str, str], pins: dict[str, Version], project: dict[str, Any], repo: Path
):
    assert front_matter["sdk"] == "gradio"
    assert Version(front_matter["sdk_version"]) == pins["gradio"]
    assert f"{front_matter['python_version']}.99" in SpecifierSet(project["requires-python"])
    assert (repo / front_matter["app_file"]).is_file()
    assert len(front_matter["short_description"]) <= 60


def _third_parties(file: Path) -> set[str]:
    """Name the libraries that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names - sys.stdlib_module_names - {"hubnmt", "training"}


def test_every_import_is_declared(repo: Path, ranges: dict[str, Any]):
    files = [*repo.glob("hubnmt/**/*.py"), *repo.glob("training/**/*.py"), *repo.glob("app.py")]
    homes = packages_distributions()
    undeclared = []
    for file in files:
        path = file.relative_to(repo).as_posix()
        groups = [
            e for place, extras in EXTRAS_OF.items() if path.startswith(place) for e in extras
        ]
        declared = {name for group in ["core", *groups] for name in ranges[group]}
        for library in sorted(_third_parties(file)):
            packages = {canonicalize_name(name) for name in homes.get(library, [library])}
            if not packages & declared:
                undeclared.append(f"{path} imports {library}, of {', '.join(packages)}")
    assert undeclared == []


def run_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    return done.stdout.strip()


def test_what_is_light_loads_nothing_heavy():
    heavy = {"torch", "numpy", "huggingface_hub", "sacrebleu", "tokenizers", "safetensors"}
    light = "hubnmt, hubnmt.config, hubnmt.errors, hubnmt.types, hubnmt.__main__"
    assert run_python(f"import sys, {light}; print(*sorted({heavy!r} & set(sys.modules)))") == ""


@pytest.mark.parametrize("command", [["list"], ["evaluate", "--hyp", __file__, "--ref", __file__]])
def test_what_runs_no_model_imports_no_torch(command: list[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HUBNMT_HUB", "0")
    code = (
        f"import sys, hubnmt.__main__; hubnmt.__main__.main({command!r}); print(sys.modules.keys())"
    )
    assert "'torch'" not in run_python(code)


def test_a_model_is_loaded_without_the_compiler_of_torch(bundled_model: Path):
    code = "import sys, hubnmt; print(hubnmt.Translator.from_pretrained({!r})('Ja.').src)"
    compiler = "print({'torch._dynamo', 'sympy'} & set(sys.modules))"
    said = run_python(f"{code.format(str(bundled_model))}; {compiler}")
    assert said.splitlines() == ["Ja.", "set()"]


def test_public_names_are_there_when_they_are_asked_for():
    assert dir(hubnmt) == sorted(hubnmt.__all__)
    for name in hubnmt.__all__:
        assert getattr(hubnmt, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'Translater'"):
        _ = hubnmt.Translater

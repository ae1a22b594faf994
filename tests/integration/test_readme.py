"""The README's snippets run, and its links lead somewhere.

A comment on the line before each snippet says what becomes of it: `run` is run here, `run beside
the app` too, with the page served meanwhile, `command: X` is run by `.ci/run` on a fresh machine,
and `needs ...` gives the reason why neither can.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from hubnmt import Translator
from hubnmt.checkpoint import bundled_models
from hubnmt.ui.handlers import Handlers
from hubnmt.ui.registry import ModelRegistry
from tests.page import serving
from training.config import parse_recipe
from training.data_config import DataConfig

FENCE = re.compile(
    r"(?:^<!-- (?P<note>[^\n]*) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"\]\((?!https?://)(?P<path>[^)#]+)")


class Snippet(NamedTuple):
    note: str
    language: str
    text: str


def find_snippets(page: str) -> list[Snippet]:
    """Read the code blocks of a page, each with the note before it."""
    found = [Snippet(m["note"] or "", m["language"], m["text"]) for m in FENCE.finditer(page)]
    return [snippet for snippet in found if snippet.language != "mermaid"]


ADDRESS = "http://127.0.0.1:7860"
"""Where the app listens, if nothing else does."""

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
SNIPPETS = find_snippets(README)
TO_RUN = [snippet for snippet in SNIPPETS if snippet.note == "run"]


def test_each_snippet_is_run_or_says_why_not():
    unclear = [
        s for s in SNIPPETS if not re.match(r"run( beside the app)?$|command: |needs ", s.note)
    ]
    assert unclear == []


def test_the_two_commands_are_the_ones_that_ci_runs(repo: Path):
    gate = (repo / ".ci" / "run").read_text(encoding="utf-8")
    named = [s.note.removeprefix("command: ") for s in SNIPPETS if s.note.startswith("command: ")]
    assert named == ["app", "test"]
    assert [name for name in named if f"readme_command {name})" not in gate] == []


def test_ci_reads_the_commands_as_they_stand(repo: Path):
    gate = (repo / ".ci" / "run").read_text(encoding="utf-8")
    (reader,) = re.findall(r"^readme_command\(\) \{.*?^\}$", gate, re.MULTILINE | re.DOTALL)
    for snippet in SNIPPETS:
        if snippet.note.startswith("command: "):
            script = f"{reader}\nreadme_command {snippet.note.removeprefix('command: ')}"
            read = subprocess.run(["bash", "-c", script], cwd=repo, capture_output=True, text=True)
            assert read.stdout == snippet.text


def test_both_commands_install_the_pinned_set():
    commands = [snippet.text for snippet in SNIPPETS if snippet.note.startswith("command: ")]
    assert all("pip install -r requirements.txt" in command for command in commands)


def test_the_examples_of_recipes_are_some():
    mixed, further = [snippet.text for snippet in SNIPPETS if snippet.language == "toml"]
    data = DataConfig.from_dict(tomllib.loads(mixed)["data"], where="README")
    assert list(data.training_corpora()) == ["main", "speeches", "back"]
    config = parse_recipe(tomllib.loads(further), where="README")
    assert config.run.pretrained in bundled_models()


def test_links_lead_to_files(repo: Path):
    dead = [match["path"] for match in LINK.finditer(README) if not (repo / match["path"]).exists()]
    assert dead == []


def test_the_map_names_files_that_exist(repo: Path):
    table = README.split("\n## Map of the files\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    names = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    homes = [repo, repo / "hubnmt", repo / "training"]
    assert [name for name in names if not any((home / name).exists() for home in homes)] == []


def test_every_bundled_model_is_in_the_table(repo: Path):
    table = README.split("\n## Models\n")[1].split("\n## ")[0]
    bundled = [file.parent.name for file in repo.glob("hubnmt/pretrained/*/config.json")]
    assert [name for name in bundled if name not in table] == []


@pytest.mark.slow
@pytest.mark.usefixtures("bundled_model")
@pytest.mark.parametrize("snippet", TO_RUN, ids=[s.text.splitlines()[0][:40] for s in TO_RUN])
def test_snippets_run(snippet: Snippet, repo: Path, tmp_path: Path, environment: dict[str, str]):
    programs = Path(sys.executable).parent
    environment["PATH"] = f"{programs}{os.pathsep}{environment['PATH']}"
    environment["PYTHONPATH"] = str(repo)
    if snippet.language == "python":
        command = [sys.executable, "-c", snippet.text]
    else:
        command = ["bash", "-euo", "pipefail", "-c", snippet.text]
        if "hubnmt" in snippet.text and not shutil.which("hubnmt", path=str(programs)):
            pytest.skip("the hubnmt command is not installed: pip install -e .")
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_clients_of_the_page_run(bundled_model: Path, capsys: pytest.CaptureFixture[str]):
    snippets = [snippet for snippet in SNIPPETS if snippet.note == "run beside the app"]
    assert snippets
    registry = ModelRegistry(Translator.from_pretrained, {bundled_model.name: bundled_model})
    with serving(Handlers(registry)) as url:
        for snippet in snippets:
            assert ADDRESS in snippet.text
            exec(snippet.text.replace(ADDRESS, url), {})
    said = capsys.readouterr().out
    assert "dog" in said.lower()
    assert bundled_model.name in said

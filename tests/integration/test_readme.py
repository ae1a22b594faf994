"""The code blocks of all documents run or say what they need, and all links lead somewhere.

A comment on the line before a block says what becomes of it: `run` is run here, `run beside the
app` too, with the page served meanwhile, `recipe` is trained by test_guide, `command: X` is run by
`.ci/run` on a fresh machine, and `needs ...` gives the reason why none of these can.
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
from hubnmt.checkpoint.files import bundled_models
from hubnmt.ui.services.registry import ModelRegistry
from tests.page import serving
from training.config.data import DataConfig
from training.config.recipe import parse_recipe

REPO = Path(__file__).parents[2]
README = "README.md"
DOCUMENTS = sorted(
    file.relative_to(REPO).as_posix()
    for pattern in ("*.md", "hubnmt/**/*.md", "training/**/*.md", "tests/**/*.md")
    for file in REPO.glob(pattern)
)
CARDS = "hubnmt/pretrained/"
"""Documents that are written by code, and whose Python can be run without a note."""

FENCE = re.compile(
    r"(?:^<!-- (?P<note>[^\n]*) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"\]\((?!https?://)(?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")
IMAGE = re.compile(r'<img src="(?P<path>[^"]+)"')
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
NOTE = re.compile(r"run( beside the app)?|recipe|command: \w+|needs .+")

ADDRESS = "http://127.0.0.1:7860"
"""Where the app listens, if nothing else does."""


class Snippet(NamedTuple):
    document: str
    note: str
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.document}: {self.text.splitlines()[0][:40]}"


def read_document(name: str) -> str:
    return (REPO / name).read_text(encoding="utf-8")


def find_snippets(document: str) -> list[Snippet]:
    """Read the code blocks of a document, each with the note before it; diagrams are none."""
    found = []
    for m in FENCE.finditer(read_document(document)):
        of_card = document.startswith(CARDS) and m["language"] == "python"
        note = m["note"] or ("run" if of_card else "")
        found.append(Snippet(document, note, m["language"], m["text"]))
    return [snippet for snippet in found if snippet.language != "mermaid"]


SNIPPETS = [snippet for document in DOCUMENTS for snippet in find_snippets(document)]
TO_RUN = [snippet for snippet in SNIPPETS if snippet.note == "run"]
RECIPES = [snippet for snippet in SNIPPETS if snippet.language == "toml" and snippet.note]
COMMANDS = [snippet for snippet in SNIPPETS if snippet.note.startswith("command: ")]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_each_block_is_run_or_says_what_it_needs(document: str):
    blocks = [snippet for snippet in find_snippets(document) if snippet.language != "toml"]
    assert [str(block) for block in blocks if not NOTE.fullmatch(block.note)] == []


def anchors(document: str) -> set[str]:
    """Name the headings of a document as GitHub and the Hub do."""
    titles = HEADING.findall(FENCE.sub("", read_document(document)))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_to_files_and_headings(document: str):
    text = FENCE.sub("", read_document(document))
    dead = []
    for match in [*LINK.finditer(text), *IMAGE.finditer(text)]:
        path, anchor = match["path"], match.groupdict().get("anchor")
        place = (REPO / document).parent / path if path else REPO / document
        if not place.exists() or (
            anchor and anchor not in anchors(place.resolve().relative_to(REPO).as_posix())
        ):
            dead.append(match[0])
    assert dead == []


def test_the_readme_is_short():
    assert len(read_document(README).splitlines()) <= 160


def test_the_readme_links_to_every_package_and_model(repo: Path):
    packages = {init.parent for init in repo.glob("hubnmt/*/__init__.py")} | {repo / "training"}
    cards = {config.with_name("README.md") for config in repo.glob(f"{CARDS}*/config.json")}
    linked = {match["path"].rstrip("/") for match in LINK.finditer(read_document(README))}
    named = {place.relative_to(repo).as_posix() for place in packages | cards}
    assert named - linked == set()


def test_every_document_of_the_packages_is_linked(repo: Path):
    linked = {
        (repo / document).parent.joinpath(match["path"]).resolve()
        for document in DOCUMENTS
        for match in LINK.finditer(read_document(document))
        if document == README or document.endswith("/README.md")
    }
    documents = {*repo.glob("hubnmt/docs/*.md"), *repo.glob("training/docs/*.md")}
    assert documents - linked == set()


def test_the_two_commands_are_the_ones_that_ci_runs(repo: Path):
    gate = (repo / ".ci" / "run").read_text(encoding="utf-8")
    named = [s.note.removeprefix("command: ") for s in COMMANDS if s.document == README]
    assert named == ["app", "test"]
    assert len(COMMANDS) == len(named)
    assert [name for name in named if f"readme_command {name})" not in gate] == []


@pytest.mark.parametrize("snippet", RECIPES, ids=str)
def test_recipes_are_valid(snippet: Snippet):
    tables = tomllib.loads(snippet.text)
    if "run" in tables:
        config = parse_recipe(tables, where=snippet.document)
        assert config.run.pretrained in ("", *bundled_models())
    else:  # a part of one
        languages = {"src_lang": "de", "tgt_lang": "en"}
        data = DataConfig.from_dict(languages | tables["data"], where=snippet.document)
        assert data.training_corpora()


@pytest.mark.slow
@pytest.mark.usefixtures("bundled_model")
@pytest.mark.parametrize("snippet", TO_RUN, ids=str)
def test_snippets_run(
    snippet: Snippet,
    repo: Path,
    tmp_path: Path,
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    if snippet.language == "python":
        monkeypatch.chdir(tmp_path)
        exec(snippet.text, {"__name__": "__main__"})
        assert capsys.readouterr().out.strip()
        return
    programs = Path(sys.executable).parent
    environment["PATH"] = f"{programs}{os.pathsep}{environment['PATH']}"
    environment["PYTHONPATH"] = str(repo)
    if "hubnmt" in snippet.text and not shutil.which("hubnmt", path=str(programs)):
        pytest.skip("the hubnmt command is not installed: pip install -e .")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", snippet.text],
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
    with serving(registry) as url:
        for snippet in snippets:
            assert ADDRESS in snippet.text
            exec(snippet.text.replace(ADDRESS, url), {})
    said = capsys.readouterr().out
    assert "dog" in said.lower()
    assert bundled_model.name in said

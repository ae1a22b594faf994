"""The commands of the Hub, as typed."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from hubnmt import Translator
from hubnmt.__main__ import main
from tests.hub import REPO, read_folder
from tests.hub_server import Fault, HubServer

Run = Callable[..., str]


@pytest.fixture
def stored(hub: HubServer, model_folder: Path) -> HubServer:
    """A Hub with one model."""
    hub.store.put(REPO, read_folder(model_folder))
    return hub


def test_list_tells_pair_bleu_and_size(stored: HubServer, run: Run):
    (line,) = [line for line in run("list", "--author", "user").splitlines() if REPO in line]
    assert "de to en" in line
    assert "BLEU 41.2" in line
    assert "MB" in line
    assert line.endswith("hub")
    run("pull", REPO)
    rows = [json.loads(line) for line in run("list", "--author", "user", "--json").splitlines()]
    assert [(row["name"], row["source"]) for row in rows] == [(REPO, "cached"), (REPO, "hub")]
    assert "source" not in run("list", "--author", "nobody", "--search", "tiny", "--json")
    assert rows[1]["bleu"] == 41.25
    assert rows[1]["chrf"] == 60.5


def test_list_without_the_hub_shows_what_is_here(
    stored: HubServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    assert main(["pull", REPO]) == 0
    capfd.readouterr()
    stored.faults.append(Fault("GET /api/models", times=None, status=503))
    assert main(["list", "--search", "tiny"]) == 0
    out, err = capfd.readouterr()
    assert REPO in out
    assert "the Hub's models are not listed" in err
    monkeypatch.setenv("HUBNMT_HUB", "0")
    stored.requests.clear()
    assert main(["list", "--search", "tiny"]) == 0
    assert REPO in capfd.readouterr().out
    assert stored.requests == []


@pytest.mark.parametrize(
    ("command", "step", "hint"),
    [
        (["list"], "GET /api/models", "nothing was changed"),
        (["pull", REPO], "GET /objects/", "pull again to continue"),
        (["push", "{folder}", "user/new"], "POST .*/commit/", "push again to make sure"),
    ],
    ids=str,
)
def test_ctrl_c_is_one_line_that_tells_how_things_stand(
    command: list[str],
    step: str,
    hint: str,
    stored: HubServer,
    model_folder: Path,
    capfd: pytest.CaptureFixture[str],
):
    stop = Fault(step, before=lambda: os.kill(os.getpid(), signal.SIGINT), pause_s=0.2)
    stored.faults.append(stop)
    assert main([word.format(folder=model_folder) for word in command]) == 130
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith("hubnmt: interrupted; ")
    assert last.endswith(hint)


def test_what_python_pushes_the_commands_take(hub: HubServer, model_folder: Path, run: Run):
    translator = Translator.from_pretrained(model_folder)
    assert translator.commit is None
    pushed = translator.push_to_hub(REPO, private=True, message="from Python")
    again = Translator.from_pretrained(REPO)
    assert again.commit == pushed.commit
    text = "Ein Hund rennt."
    expected = translator.translate(text, max_new_tokens=4)
    assert again.translate(text, max_new_tokens=4) == expected
    said = run("translate", text, "--model", REPO, "--max-new-tokens", 4)
    assert said == f"{expected.text}\n"
    facts = json.loads(run("inspect", REPO, "--json"))["model"]
    assert facts["commit"] == Path(facts["folder"]).name == pushed.commit
    (model_folder / "decoding.json").write_text("{}")
    said = json.loads(run("push", model_folder, REPO, "--private", "--revision", "wip", "--json"))
    assert hub.repo(REPO).private
    assert said["commit"] == hub.repo(REPO).refs["wip"]
    assert run("push", model_folder, REPO, "--create-pr").endswith("/discussions/1\n")

"""A Space that serves a model holds what it needs, and no more."""

import subprocess
import traceback
from pathlib import Path

import pytest
import yaml

from hubnmt.errors import HubError
from hubnmt.hub import space
from hubnmt.hub.space import collect, open_space, write_readme
from tests.hub import REPO, TOKEN, read_folder
from tests.hub_server import Fault, HubServer

SPACE = "user/demo"


@pytest.fixture
def served(hub: HubServer, model_folder: Path) -> HubServer:
    """A Hub with a model to serve."""
    hub.store.put(REPO, read_folder(model_folder))
    return hub


def test_a_space_is_made_with_what_it_needs(served: HubServer, repo: Path):
    opened = open_space(SPACE, REPO)
    made = served.repo(SPACE, "space")
    files = made.files()
    assert opened.url == f"{served.url}/spaces/{SPACE}"
    assert opened.commit == made.refs["main"]
    for name in ("app.py", "requirements.txt", "hubnmt/translator.py"):
        assert files[name] == (repo / name).read_bytes()
    beside = {"README.md", "app.py", "requirements.txt"}
    assert {name.split("/")[0] for name in files} == beside | {"hubnmt", "training"}
    assert not [name for name in files if "pretrained" in name or "__pycache__" in name]
    assert made.variables == {"HUBNMT_MODEL": REPO}
    assert made.secrets == {}
    assert made.history() == [f"Serve {REPO} with hubnmt", "initial commit"]


def test_an_older_space_is_brought_up_to_date_and_its_owners_files_stay(served: HubServer):
    head = b"---\ntags: [hubnmt]\n---\n"
    old = {"hubnmt/gone.py": b"x", "app.py": b"old", "notes.md": b"mine", "README.md": head}
    served.store.put(SPACE, old, kind="space")
    opened = open_space(SPACE, f"{REPO}@main")
    files = served.repo(SPACE, "space").files()
    assert "hubnmt/gone.py" not in files
    assert files["notes.md"] == b"mine"
    assert files["app.py"] != b"old"
    assert opened.is_changed


def test_the_front_matter_is_what_the_hub_builds_by(repo: Path):
    head = yaml.safe_load(write_readme(SPACE, f"{REPO}@v1").split("---\n")[1])
    ours = yaml.safe_load((repo / "README.md").read_text().split("---\n")[1])
    assert f"gradio=={head['sdk_version']}" in (repo / "requirements.txt").read_text()
    picture = f"/spaces/{SPACE}/resolve/main/{space.PICTURE}"
    assert head.pop("thumbnail").endswith(picture)
    assert space.PICTURE in collect(SPACE, REPO)
    changed = {"title": "demo", "models": [REPO]}
    assert head == ours | changed


def test_a_bundled_model_travels_along(
    hub: HubServer, model_folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(space, "bundled_models", lambda: {"de-en-tiny": model_folder})
    monkeypatch.setattr(space, "PRETRAINED", model_folder.parent)
    open_space(SPACE, "de-en-tiny")
    files = hub.repo(SPACE, "space").files()
    weights = (model_folder / "model.safetensors").read_bytes()
    assert files["hubnmt/pretrained/de-en-tiny/model.safetensors"] == weights
    assert "models" not in yaml.safe_load(files["README.md"].decode().split("---\n")[1])


@pytest.mark.parametrize("closed", ["private", "gated"])
def test_a_closed_model_needs_a_secret_and_is_for_everybody_only_when_asked(
    closed: str, served: HubServer
):
    setattr(served.repo(REPO), closed, True)
    with pytest.raises(HubError, match=f"is {closed}.*--with-token"):
        open_space(SPACE, REPO)
    assert ("space", SPACE) not in served.store.repos
    assert open_space(SPACE, REPO, with_token=True).is_private
    made = served.repo(SPACE, "space")
    assert made.secrets == {"HF_TOKEN": TOKEN}
    assert not any(TOKEN.encode() in content for content in made.files().values())
    public = served.store.create("space", "user/public")
    with pytest.raises(HubError, match="is public: make it private"):
        open_space("user/public", REPO, with_token=True)
    assert public.secrets == {}
    assert not open_space("user/public", REPO, with_token=True, public=True).is_private


def test_a_secret_that_cannot_be_set_is_not_shown(served: HubServer):
    served.faults.append(Fault("POST .*secrets", times=None, status=403))
    with pytest.raises(HubError, match="forbids") as error:
        open_space(SPACE, REPO, with_token=True)
    assert TOKEN not in "".join(traceback.format_exception(error.value))
    assert served.repo(SPACE, "space").files() == {}


def test_a_space_with_another_app_is_left_alone(served: HubServer):
    files = {"index.html": b"theirs", "README.md": b"---\nsdk: docker\ntags: [chess]\n---\n"}
    made = served.store.put(SPACE, files, kind="space")
    with pytest.raises(HubError, match="other content: choose a new name"):
        open_space(SPACE, REPO)
    assert (made.files(), made.variables) == (files, {})


def test_what_is_no_part_of_the_package_stays_here(
    tmp_path: Path, repo: Path, monkeypatch: pytest.MonkeyPatch
):
    package = tmp_path / "hubnmt"
    (package / "__pycache__").mkdir(parents=True)
    for name in ("a.py", ".env", ".a.py.swp", "__pycache__/a.pyc"):
        (package / name).write_text(TOKEN)
    monkeypatch.setattr(space, "PACKAGE", package)
    monkeypatch.setattr(space, "WHEEL_FILES", repo)
    assert {name for name in collect(SPACE, REPO) if name.startswith("hubnmt/")} == {"hubnmt/a.py"}


def test_every_file_of_the_package_is_of_a_kind_that_travels(repo: Path):
    """A new kind of file would be missing in every Space."""
    tracked = subprocess.run(
        ["git", "ls-files", "hubnmt"], cwd=repo, capture_output=True, text=True, check=True
    ).stdout.split()
    tracked = [name for name in tracked if "/pretrained/" not in name]
    assert len(tracked) > 50
    assert set(tracked) <= set(collect(SPACE, REPO))

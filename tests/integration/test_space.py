"""What `hubnmt space` uploads is a working app: taken from the Hub, installed, booted, asked.

The Space's environment is a fresh one that borrows the installed dependencies, so that nothing is
downloaded; hubnmt itself it has only from what was uploaded. `.ci/run` installs the pins that are
uploaded.
"""

from pathlib import Path

import pytest
from gradio_client import Client

from hubnmt import Translator
from hubnmt.hub.push import push
from hubnmt.hub.space import open_space
from tests.environments import borrow_environment, served
from tests.hub import TOKEN
from tests.hub_server import HubServer, Repo

pytestmark = pytest.mark.slow

MODEL, SPACE = "user/secret-model", "user/demo"
TEXT = "Ein Hund rennt im Schnee."


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return borrow_environment(tmp_path_factory.mktemp("space") / "env") / "python"


def check_out(space: Repo, folder: Path) -> Path:
    """Write what the Hub holds into a folder, as the Hub's builder does."""
    for name, content in space.files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def test_the_space_translates_with_a_private_model(
    hub: HubServer,
    model_folder: Path,
    environment: dict[str, str],
    python: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    push(model_folder, MODEL, private=True)
    open_space(SPACE, MODEL, with_token=True)
    space = hub.repo(SPACE, "space")
    folder = check_out(space, tmp_path / "space" / "app")
    environment |= {"HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0", "SPACE_ID": SPACE}
    environment |= space.variables | space.secrets
    expected = Translator.from_pretrained(model_folder).translate(TEXT)
    monkeypatch.delenv("HF_TOKEN")
    log = tmp_path / "log.txt"
    with served([python, "app.py"], folder, environment, log) as (url, _):
        client = Client(url, verbose=False)
        said = client.predict(TEXT, api_name="/translate")
        names = [model["name"] for model in client.predict(api_name="/models")]
        client.close()
    text = said[0] if isinstance(said, (list, tuple)) else said
    assert text == expected.text
    assert names == [MODEL]
    assert hub.asked(f"GET /api/models/{MODEL}")
    assert TOKEN not in log.read_text()

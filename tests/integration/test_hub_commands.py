"""Whole commands against a Hub on loopback: interrupted, out of reach, with a token to keep.

Each starts a Python of its own, which takes seconds; what they prove in whole, the unit tests prove
in parts.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.hub import REPO, TOKEN
from tests.hub_server import Fault, HubServer

# --- the token -----------------------------------------------------------------------------------

LEAKS = """
import logging, sys, traceback
logging.basicConfig(level=logging.DEBUG)
from hubnmt import Translator
from hubnmt.hub.push import push
token = sys.stdin.readline().strip()
for attempt in (
    lambda: Translator.from_pretrained("user/nothing", token=token),
    lambda: Translator.from_pretrained("user/nothing", token=token + "ü"),
    lambda: Translator.from_pretrained({model!r}).push_to_hub({repo!r}, token=token),
    lambda: push({model!r}, "other/model", token=token),
):
    try:
        attempt()
    except Exception:
        traceback.print_exc()
vars_of = vars(Translator.from_pretrained({repo!r}, token=token))
assert token not in repr(vars_of)
Translator.from_pretrained({repo!r}, token=token).save_pretrained({saved!r})
"""


@pytest.mark.slow
def test_a_token_is_nowhere_to_be_read(
    hub: HubServer, model_folder: Path, environment: dict[str, str], repo: Path, tmp_path: Path
):
    hub.faults.append(Fault("PUT|commit", times=1, status=500))
    saved = tmp_path / "saved"
    code = LEAKS.format(model=str(model_folder), repo=REPO, saved=str(saved))
    environment |= {"PYTHONPATH": str(repo), "HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        input=TOKEN,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.replace(TOKEN, "***")
    assert TOKEN not in done.stdout + done.stderr
    assert "Traceback" in done.stderr  # it did fail where it should
    secret = TOKEN.encode()
    for folder in (saved, model_folder, Path(environment["HF_HOME"])):
        assert not any(secret in path.read_bytes() for path in folder.rglob("*") if path.is_file())
    contents = [*hub.repo(REPO).files().values(), *hub.store.objects.values()]
    assert not any(secret in content for content in contents)
    assert any(TOKEN in value for r in hub.asked("api/models") for value in r.headers.values())
    assert not any(
        TOKEN in value for r in hub.asked(r"\w /objects/") for value in r.headers.values()
    )

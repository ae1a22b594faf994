import pytest

from hubnmt.errors import ModelFolderError
from hubnmt.ui.gradio.events import public_message


def test_an_error_shows_no_folder_of_the_cache_and_nothing_that_cannot_be_sent():
    commit = "0" * 40
    folder = f"/root/.cache/huggingface/hub/models--user--my-model/snapshots/{commit}"
    said = public_message(ModelFolderError(f"{folder}/config.json: layer = \ud800"))
    assert said == "user/my-model/config.json: layer = \\ud800"


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("/srv/models/my-model/config.json: no such file", "config.json: no such file"),
        ("'/srv/models/a b' has no model", "'a b' has no model"),
        ("see https://example.org/a/b, 3/4/5 and and/or", None),
    ],
)
def test_an_error_shows_no_folder_of_the_server(message: str, shown: str | None):
    assert public_message(ModelFolderError(message)) == (shown or message)

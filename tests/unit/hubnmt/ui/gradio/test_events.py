import itertools
import time
from collections.abc import Generator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from gradio.context import LocalContext

from hubnmt.errors import ModelFolderError
from hubnmt.ui.gradio.events import as_client, public_message
from hubnmt.ui.services import turns
from hubnmt.ui.services.turns import in_turns

CACHED = f"/root/.cache/huggingface/hub/models--user--my-model/snapshots/{'0' * 40}"


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("/srv/models/my-model/config.json: no such file", "config.json: no such file"),
        ("'/srv/models/a b' has no model", "'a b' has no model"),
        (f"{CACHED}/config.json: no such file", "user/my-model/config.json: no such file"),
        ("layer = \ud800", "layer = \\ud800"),
        ("see https://example.org/a/b, 3/4/5 and and/or", None),
    ],
)
def test_an_error_shows_no_folder_and_nothing_that_cannot_be_sent(message: str, shown: str | None):
    assert public_message(ModelFolderError(message)) == (shown or message)


def test_a_newer_request_of_a_session_ends_the_older_one_of_its_kind():
    def steps() -> Iterator[int]:
        yield from in_turns(iter_forever())

    def iter_forever() -> Generator[int, None, None]:
        for n in itertools.count():
            time.sleep(turns.SLICE_S)
            yield n

    def ask(session: str, kind: str) -> Generator[int, None, None]:
        request: Any = SimpleNamespace(session_hash=session, client=None)
        LocalContext.request.set(request)
        asked: Generator[int, None, None] = as_client(steps, replaces=kind)()
        next(asked)
        return asked

    first, other, page = ask("a", "text"), ask("a", "file"), ask("b", "text")
    newer = ask("a", "text")
    assert list(first) == []
    for each in (other, page, newer):
        next(each)
        each.close()

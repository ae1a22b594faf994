from collections.abc import Iterator

import gradio as gr
import pytest

from hubnmt.errors import InputError, ModelFolderError
from hubnmt.ui.gradio.events import public_message, said_in_page, said_to_client


def _double(number: int) -> int:
    """Twice."""
    if number < 0:
        raise InputError("no <number> below 0")
    return 2 * number


def _count(number: int) -> Iterator[int]:
    yield 0
    yield _double(number)


def test_a_refused_event_is_a_notice_and_leaves_the_rest_alone():
    event = said_in_page(lambda n: ("", _double(n)), blank=(gr.skip(),))
    assert event(2) == ("", 4)
    notice, rest = event(-1)
    assert "No &lt;number&gt; below 0." in notice
    assert 'role="alert"' in notice
    assert rest == gr.skip()


def test_a_client_gets_the_sentence_and_the_signature():
    told = said_to_client(_double)
    assert told(2) == 4
    assert (told.__doc__, told.__annotations__) == (_double.__doc__, _double.__annotations__)
    with pytest.raises(gr.Error, match="no <number> below 0"):
        told(-1)


def test_a_generator_stays_one_and_says_what_went_wrong():
    told = said_to_client(_count)
    assert list(told(2)) == [0, 4]
    running = told(-1)
    assert next(running) == 0
    with pytest.raises(gr.Error, match="no <number> below 0"):
        next(running)


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

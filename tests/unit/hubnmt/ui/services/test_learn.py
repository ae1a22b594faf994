import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hubnmt.errors import InputError
from hubnmt.ui.services import learn
from hubnmt.ui.services.learn import Lessons
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.translate import Handlers


@pytest.fixture
def lessons(handlers: Handlers) -> Lessons:
    return Lessons(handlers.registry)


def test_a_text_too_long_to_watch_is_refused(lessons: Lessons):
    lessons.pieces("x" * learn.MAX_PIECES_BYTES, "")
    with pytest.raises(InputError, match="401 bytes; the limit is 400"):
        lessons.pieces("x" * (learn.MAX_PIECES_BYTES + 1), "")
    with pytest.raises(InputError, match="not int"):
        lessons.pieces(3, "")  # type: ignore[arg-type]


def test_the_network_is_shown_for_what_was_translated_last(lessons: Lessons, handlers: Handlers):
    translated = {
        "src": "ein hund\nzwei",
        "model": "second",
        "candidates": [{"text": "A"}, {"text": "THE DOG RUNS\nTWO"}],
        "selected": 1,
    }
    found = lessons.last_anatomy(handlers, "first", translated)
    assert found.src == "ein hund"
    assert (found.n_src_tokens, found.n_tgt_tokens) == (6, 8)  # the first line, two marks of eos
    assert found.stages[0].tensors[0].shape == (1, 6)
    assert sum(stage.n_parameters for stage in found.stages) == found.config.n_parameters


def test_run_folders_are_read_only_where_local_folders_are(
    make_registry: Callable[..., ModelRegistry], tmp_path: Path
):
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"step": 1, "loss": 2.0}))
    mine = Lessons(make_registry(allow_local=True))
    assert mine.run_at(f" {tmp_path} ").curves
    with pytest.raises(InputError, match="no folder yet"):
        mine.run_at(" ")
    public = Lessons(make_registry())
    with pytest.raises(InputError, match="does not open local folders"):
        public.run_at(str(tmp_path))
    (tmp_path / "best").mkdir()
    assert public.run_of(str(tmp_path / "best")) is None

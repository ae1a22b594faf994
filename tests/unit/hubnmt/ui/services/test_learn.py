from pathlib import Path
from typing import Any

import pytest

from hubnmt.errors import InputError
from hubnmt.translator import Translator
from hubnmt.ui.services import learn
from hubnmt.ui.services.learn import Learn
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.translate import Handlers


def test_a_text_too_long_to_watch_is_refused(handlers: Handlers):
    tab = Learn(handlers)
    tab.merges("x" * learn.MAX_MERGED_BYTES, "")
    with pytest.raises(InputError, match="401 bytes; the limit is 400"):
        tab.merges("x" * (learn.MAX_MERGED_BYTES + 1), "")
    with pytest.raises(InputError, match="not int"):
        tab.merges(3, "")  # type: ignore[arg-type]


def _translate(handlers: Handlers, text: str, model: str) -> dict[str, Any]:
    """Return the state of a page that shows a translation."""
    found = handlers.translate_text(text, model).translation
    sentences = [list(each.src) for each in found.sentences]
    candidates = [{"text": each.text, "rows": each.tgt_ids} for each in found.n_best]
    state = {"src": text, "model": model, "sentences": sentences, "candidates": candidates}
    return state | {"selected": 0, "sentence": 0}


def test_everything_is_of_the_selected_model(random_model: Translator, tmp_path: Path):
    models = {"tiny": random_model, "twin": random_model}
    handlers = Handlers(ModelRegistry(models.__getitem__, dict.fromkeys(models, tmp_path)))
    tab = Learn(handlers)
    translated = _translate(handlers, "ein hund", "tiny")
    same, again = tab.subject("tiny", translated), tab.subject("twin", translated)
    assert same
    assert again
    assert same["model"] == "tiny"
    assert (again["model"], again["src"]) == ("twin", "ein hund")
    found = tab.network(again)
    assert sum(stage.n_parameters for stage in found.stages) == found.config.n_parameters
    assert found.stages[0].shapes["ids"] == (1, found.n_src_tokens)

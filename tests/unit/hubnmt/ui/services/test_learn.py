from pathlib import Path

from hubnmt.translator import Translator
from hubnmt.ui.services.learn import Learn
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.subject import page_state
from hubnmt.ui.services.translate import Handlers


def test_everything_is_of_the_selected_model(random_model: Translator, tmp_path: Path):
    models = {"tiny": random_model, "twin": random_model}
    handlers = Handlers(ModelRegistry(models.__getitem__, dict.fromkeys(models, tmp_path)))
    tab = Learn(handlers)
    translated = page_state("ein hund", "tiny", random_model.translate("ein hund"), random_model)
    same, again = tab.subject("tiny", translated), tab.subject("twin", translated)
    assert same
    assert again
    assert same["model"] == "tiny"
    assert (again["model"], again["src"]) == ("twin", "ein hund")

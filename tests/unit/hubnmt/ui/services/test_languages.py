"""Language pairs and their models."""

from hubnmt.checkpoint.folder import bundled_models
from hubnmt.translator import Translator
from hubnmt.ui.services.languages import language_lists
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.translate import Handlers


def test_the_pages_models_are_listed_by_their_languages_without_opening_them():
    registry = ModelRegistry(Translator.from_pretrained, bundled_models(), opening="de-en-multi30k")
    chosen = Handlers(registry).choose("")
    lists = language_lists(registry, chosen.facts)
    assert lists["opened"] == "de-en-multi30k"
    assert lists["has_more"] is False
    found = {each["name"]: each for each in lists["models"]}
    assert list(found) == list(registry.names)
    assert not registry.is_open("de-en")
    both = found["de-en"], found["de-en-multi30k"]
    assert {(each["src"], each["tgt"]) for each in both} == {("de", "en")}
    assert both[0]["label"].startswith("German to English, 13 M: ")
    assert both[1]["label"] == "German to English, 2.3 M: photo captions"

"""A model's name: first bundled, then a folder, then on the Hub; what it is not is said."""

from pathlib import Path

import pytest

from hubnmt.errors import ConfigError, ModelNotFoundError
from hubnmt.hub import pull
from hubnmt.hub.pull import locate_model
from hubnmt.translator import Translator


def test_a_bundled_name_comes_first_then_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("de-en-x", "mine"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(pull, "bundled_models", lambda: {"de-en-x": Path("/inside")})
    assert locate_model("de-en-x")[0] == Path("/inside")
    assert locate_model("mine")[0].resolve() == tmp_path / "mine"
    assert locate_model("./de-en-x")[0].resolve() == tmp_path / "de-en-x"
    assert locate_model(tmp_path / "mine")[0] == tmp_path / "mine"


@pytest.mark.parametrize(
    "name",
    ["de-en", "./nowhere", "a/b/c", "~nobody-has-this-name/model", "a\0b", "x" * 5000, "\n"],
    ids=lambda name: repr(name[:20]),
)
def test_an_unknown_model_names_what_there_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull, "bundled_models", lambda: {"de-en-x": Path("/inside")})
    with pytest.raises(ModelNotFoundError, match="de-en-x"):
        Translator.from_pretrained(name)


def test_a_folder_has_no_revisions(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no revisions"):
        Translator.from_pretrained(tmp_path, revision="v1")

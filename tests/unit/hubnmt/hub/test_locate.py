"""A reference is read, and a name found: bundled, else a folder, else on the Hub."""

from pathlib import Path

import pytest

from hubnmt.errors import ConfigError, HubError, ModelNotFoundError
from hubnmt.hub import pull
from hubnmt.hub.client import HubReference, parse_reference
from hubnmt.hub.pull import locate_model
from hubnmt.translator import Translator

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    "text", ["a/b", "user/name@v1.0", "user/name@feature/a", f"U_s-er/n.a-me_2@{COMMIT}"]
)
def test_a_reference_is_read_and_written(text: str):
    repo, _, revision = text.partition("@")
    assert parse_reference(text) == HubReference(repo, revision or "main")
    assert str(parse_reference(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "", "name", "/user/name", "./user/name", "../name", "~/name", "user/name/more", "user/",
        "user/na me", "user/..", "us..er/name", "user/--x", "a--b/c", "user/x.git", "user/name@",
        "user/.name", "user/name-", "useр/name", f"user/{'x' * 97}", "C:\\user/name", "u/n\n",
    ],
)  # fmt: skip
def test_another_shape_is_no_reference(text: str):
    assert parse_reference(text) is None


@pytest.mark.parametrize("revision", ["../a", "a//b", "-x", ".x", "a/.b", "a..b", "/a", "a/", "ü"])
def test_a_revision_git_would_not_take_is_refused(revision: str):
    with pytest.raises(HubError, match="not a valid branch"):
        parse_reference(f"user/name@{revision}")


def test_a_bundled_name_comes_first_then_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
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
def test_an_unknown_model_names_what_there_is(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pull, "bundled_models", lambda: {"de-en-x": Path("/inside")})
    with pytest.raises(ModelNotFoundError, match="de-en-x"):
        Translator.from_pretrained(name)


def test_a_folder_has_no_revisions(tmp_path: Path):
    with pytest.raises(ConfigError, match="has no revisions"):
        Translator.from_pretrained(tmp_path, revision="v1")

"""Names of models on the Hub."""

import pytest

from hubnmt.errors import HubError
from hubnmt.hub.reference import HubReference, parse_reference

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("text", "repo", "revision"),
    [
        ("user/name", "user/name", "main"),
        ("user/name@v1.0", "user/name", "v1.0"),
        ("user/name@feature/a", "user/name", "feature/a"),
        ("user/name@refs/pr/3", "user/name", "refs/pr/3"),
        (f"U_s-er/n.a-me_2@{COMMIT}", "U_s-er/n.a-me_2", COMMIT),
        ("a/b", "a/b", "main"),
    ],
)
def test_a_reference_is_read_and_written(text: str, repo: str, revision: str):
    reference = parse_reference(text)
    assert reference == HubReference(repo, revision)
    assert str(reference) == text


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
        parse_reference("user/name", revision=revision)

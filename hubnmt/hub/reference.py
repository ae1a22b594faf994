"""How a model on the Hub is named: `user/name` or `user/name@revision`.

Takes text, gives a `HubReference`. Must not know the network or the file system. The rules for
names are the Hub's own: https://huggingface.co/docs/huggingface_hub/package_reference/utilities
"""

import dataclasses
import re

from hubnmt.errors import HubError

MAIN = "main"
"""The branch the Hub shows first."""

NAME = r"\w(?:[\w.-]{0,94}\w)?"
"""One half of a repository's name; no dash or point at either end."""

REFERENCE = re.compile(rf"({NAME}/{NAME})(?:@([\w./+-]{{1,200}}))?", re.ASCII)
COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclasses.dataclass(frozen=True, slots=True)
class HubReference:
    """A repository at a revision."""

    repo: str
    """`user/name`."""
    revision: str = MAIN
    """Branch, tag, commit hash or `refs/pr/N`."""

    @property
    def is_pinned(self) -> bool:
        """Tell whether the revision is a commit, which never changes."""
        return COMMIT.fullmatch(self.revision) is not None

    def __str__(self) -> str:
        """Write the reference as it is given; `main` goes without saying."""
        return self.repo if self.revision == MAIN else f"{self.repo}@{self.revision}"


def parse_reference(text: str, *, revision: str | None = None) -> HubReference | None:
    """Read `user/name[@revision]`; None for a text of any other shape.

    Args:
        text: what the user named.
        revision: given apart; must not contradict the one in the text.

    Raises:
        HubError: if both give a revision, and not the same, or if it is none.
    """
    match = REFERENCE.fullmatch(text)
    if not match or ".." in match[1] or "--" in match[1] or match[1].endswith(".git"):
        return None
    if revision is not None and match[2] not in (None, revision):
        raise HubError(f"{text!r} names a revision, and revision = {revision!r} another; give one")
    chosen = match[2] or revision or MAIN
    check_revision(chosen)
    return HubReference(match[1], chosen)


def check_revision(revision: str) -> None:
    """Refuse what git would not take as the name of a branch.

    Raises:
        HubError: saying which characters it may have.
    """
    parts = revision.split("/")
    fits = re.fullmatch(r"[\w./+-]{1,200}", revision, re.ASCII)
    if not fits or ".." in revision or any(not part or part[0] in ".-" for part in parts):
        raise HubError(
            f"revision = {revision!r} is no name of a branch, tag or commit; "
            "use letters, digits and . _ - + /"
        )


def check_repo(repo: str) -> str:
    """Return the name of a repository, or refuse it.

    Raises:
        HubError: if it is not `user/name`.
    """
    reference = parse_reference(repo)
    if reference is None or reference.revision != MAIN:
        raise HubError(f"{repo!r} must be USER/NAME, of letters, digits and . _ - only")
    return reference.repo

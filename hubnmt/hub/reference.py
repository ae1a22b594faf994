"""Parse references to Hub models: `user/name` or `user/name@revision`.

Naming rules: https://huggingface.co/docs/huggingface_hub/package_reference/utilities
"""

import dataclasses
import re

from hubnmt.errors import HubError

MAIN = "main"
"""Default branch."""

NAME = r"\w(?:[\w.-]{0,94}\w)?"
REPO = re.compile(rf"(?!.*(?:--|\.\.)){NAME}/{NAME}(?<!\.git)", re.ASCII)
REVISION = re.compile(r"(?!.*\.\.)(?=.{1,200}$)[\w+][\w.+-]*(?:/[\w+][\w.+-]*)*", re.ASCII)
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
        """Whether the revision is a commit hash."""
        return COMMIT.fullmatch(self.revision) is not None

    def __str__(self) -> str:
        """Return `user/name@revision`, without `@main`."""
        return self.repo if self.revision == MAIN else f"{self.repo}@{self.revision}"


def parse_reference(text: str, *, revision: str | None = None) -> HubReference | None:
    """Parse `user/name[@revision]`; None if the text has another form.

    Raises:
        HubError: if a `revision` given separately differs, or it is not a valid git ref name.
    """
    repo, at, given = text.partition("@")
    if not REPO.fullmatch(repo) or (at and not given):
        return None
    if given and revision not in (None, given):
        raise HubError(f"{text!r} and revision = {revision!r} name different revisions; give one")
    chosen = given or revision or MAIN
    if not REVISION.fullmatch(chosen):
        raise HubError(
            f"revision = {chosen!r} is not a valid branch, tag or commit; "
            "use letters, digits and . _ - + /"
        )
    return HubReference(repo, chosen)


def check_repo(repo: str) -> None:
    """Raise a `HubError` unless the name of a repository is `user/name`."""
    if not REPO.fullmatch(repo):
        raise HubError(f"{repo!r} must be USER/NAME, of letters, digits and . _ - only")

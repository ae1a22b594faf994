"""Parse references to Hub models: `user/name` or `user/name@revision`.

Naming rules: https://huggingface.co/docs/huggingface_hub/package_reference/utilities
"""

import dataclasses
import re

from hubnmt.errors import HubError

MAIN = "main"
"""Default branch."""

NAME = r"\w(?:[\w.-]{0,94}\w)?"
"""User or model name; must not start or end with a dash or dot."""

REVISION = re.compile(r"[\w./+-]{1,200}", re.ASCII)
REFERENCE = re.compile(rf"({NAME}/{NAME})(?:@({REVISION.pattern}))?", re.ASCII)
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
    match = REFERENCE.fullmatch(text)
    if not match or ".." in match[1] or "--" in match[1] or match[1].endswith(".git"):
        return None
    if revision is not None and match[2] not in (None, revision):
        raise HubError(f"{text!r} and revision = {revision!r} name different revisions; give one")
    chosen = match[2] or revision or MAIN
    parts = chosen.split("/")
    is_path = ".." in chosen or any(not part or part[0] in ".-" for part in parts)
    if is_path or not REVISION.fullmatch(chosen):
        raise HubError(
            f"revision = {chosen!r} is not a valid branch, tag or commit; "
            "use letters, digits and . _ - + /"
        )
    return HubReference(match[1], chosen)


def check_repo(repo: str) -> None:
    """Raise a `HubError` unless the name of a repository is `user/name`."""
    if "@" in repo or parse_reference(repo) is None:
        raise HubError(f"{repo!r} must be USER/NAME, of letters, digits and . _ - only")

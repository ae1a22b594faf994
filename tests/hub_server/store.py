"""What the small Hub remembers: users, repositories, commits, files.

Takes plain values, gives plain values; a refusal is a `RefusedError` with the Hub's own status and
error code.
"""

import dataclasses
import hashlib
import itertools
import threading

PREFIXES = {"model": "", "space": "spaces/", "dataset": "datasets/"}
KINDS = {prefix: kind for kind, prefix in PREFIXES.items()}
LFS_SUFFIXES = (".safetensors", ".bin", ".parquet", ".pt")
LFS_BYTES = 10 * 2**20
"""Files above are stored as large files whatever their name, as on the Hub."""


class RefusedError(Exception):
    """A request the Hub answers with an error."""

    def __init__(self, status: int, message: str, code: str = "", **facts: str) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.facts = status, message, code, facts


@dataclasses.dataclass(frozen=True)
class Blob:
    """The content of a file."""

    data: bytes
    is_lfs: bool = False

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def pointer(self) -> bytes:
        lines = ["version https://git-lfs.github.com/spec/v1", f"oid sha256:{self.sha256}"]
        return "\n".join([*lines, f"size {len(self.data)}", ""]).encode()

    @property
    def oid(self) -> str:
        """Git's name for the blob: of the pointer if the content is kept elsewhere."""
        content = self.pointer if self.is_lfs else self.data
        return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()

    @property
    def etag(self) -> str:
        return self.sha256 if self.is_lfs else self.oid


@dataclasses.dataclass(frozen=True)
class Commit:
    """One state of a repository."""

    oid: str
    parent: str
    title: str
    files: dict[str, Blob]


@dataclasses.dataclass(frozen=True)
class User:
    """Who stands behind a token."""

    name: str
    can_write: bool = True


@dataclasses.dataclass
class Repo:
    """One model or Space."""

    kind: str
    id: str
    private: bool = False
    gated: bool = False
    """Who may read it beside its owner."""
    branches: dict[str, str] = dataclasses.field(default_factory=dict)
    tags: dict[str, str] = dataclasses.field(default_factory=dict)
    pull_requests: dict[str, str] = dataclasses.field(default_factory=dict)
    commits: dict[str, Commit] = dataclasses.field(default_factory=dict)
    variables: dict[str, str] = dataclasses.field(default_factory=dict)
    secrets: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def owner(self) -> str:
        return self.id.split("/")[0]

    def resolve(self, revision: str) -> Commit:
        for names in (self.branches, self.tags, self.pull_requests):
            if revision in names:
                return self.commits[names[revision]]
        if revision in self.commits:
            return self.commits[revision]
        raise RefusedError(404, f"Invalid rev id: {revision}", "RevisionNotFound")

    def files(self, revision: str = "main") -> dict[str, bytes]:
        files = self.resolve(revision).files
        return {name: blob.data for name, blob in files.items() if name != ".gitattributes"}

    def history(self, revision: str = "main") -> list[str]:
        titles, commit = [], self.resolve(revision)
        while True:
            titles.append(commit.title)
            if not commit.parent:
                return titles
            commit = self.commits[commit.parent]


class Store:
    """All repositories and users."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.users: dict[str, User] = {}
        self.repos: dict[tuple[str, str], Repo] = {}
        self.objects: dict[str, bytes] = {}
        self._numbers = itertools.count(1)

    def user(self, token: str | None) -> User | None:
        if token is None:
            return None
        if token not in self.users:
            raise RefusedError(401, "Invalid credentials in Authorization header")
        return self.users[token]

    def find(self, kind: str, repo_id: str, user: User | None, *, content: bool = False) -> Repo:
        """Return a repository this user may see, and read if `content` is asked for."""
        repo = self.repos.get((kind, repo_id))
        knows = repo and user and user.name == repo.owner
        if repo is None or (repo.private and not knows):
            status = 404 if user else 401
            raise RefusedError(status, "Repository not found", "RepoNotFound")
        if content and repo.gated and not knows:
            raise RefusedError(
                403 if user else 401, f"Access to {repo_id} is restricted", "GatedRepo"
            )
        return repo

    def find_to_write(self, kind: str, repo_id: str, user: User | None) -> Repo:
        repo = self.find(kind, repo_id, user)
        if user is None:
            raise RefusedError(401, "Invalid username or password.")
        if user.name != repo.owner or not user.can_write:
            raise RefusedError(403, "you don't have the rights to write to this repository")
        return repo

    def create(self, kind: str, repo_id: str, *, private: bool = False) -> Repo:
        if (kind, repo_id) in self.repos:
            raise RefusedError(409, f"You already created this {kind} repo")
        repo = self.repos[kind, repo_id] = Repo(kind, repo_id, private=private)
        first = {".gitattributes": Blob(b"*.safetensors filter=lfs diff=lfs merge=lfs -text\n")}
        repo.branches["main"] = self._commit(repo, "", "initial commit", first).oid
        return repo

    def put(self, repo_id: str, files: dict[str, bytes], *, kind: str = "model") -> Repo:
        """Commit files on `main` the way another person would, making the repository if need be."""
        repo = self.repos.get((kind, repo_id)) or self.create(kind, repo_id)
        blobs = {name: self.blob(name, data) for name, data in files.items()}
        self.commit(repo, "main", title="put", add=blobs, delete=[])
        return repo

    def blob(self, name: str, data: bytes) -> Blob:
        blob = Blob(data, is_lfs=is_large(name, len(data)))
        if blob.is_lfs:
            self.objects[blob.sha256] = data
        return blob

    def commit(
        self,
        repo: Repo,
        branch: str,
        *,
        title: str,
        add: dict[str, Blob],
        delete: list[str],
        parent: str | None = None,
        pull_request: bool = False,
    ) -> tuple[Commit, str]:
        """Add one commit to a branch, or open a pull request with it.

        Returns:
            the commit, and the number of the pull request or an empty text.
        """
        head = repo.resolve(branch)
        if branch not in repo.branches and branch not in repo.pull_requests:
            raise RefusedError(404, f"Invalid rev id: {branch}", "RevisionNotFound")
        if parent is not None and parent != head.oid and not pull_request:
            raise RefusedError(412, "A commit has happened since. Please refresh and try again.")
        files = {name: blob for name, blob in head.files.items() if name not in delete} | add
        commit = self._commit(repo, head.oid, title, files)
        if not pull_request:
            names = repo.branches if branch in repo.branches else repo.pull_requests
            names[branch] = commit.oid
            return commit, ""
        number = str(len(repo.pull_requests) + 1)
        repo.pull_requests[f"refs/pr/{number}"] = commit.oid
        return commit, number

    def _commit(self, repo: Repo, parent: str, title: str, files: dict[str, Blob]) -> Commit:
        seed = f"{repo.kind} {repo.id} {parent} {title} {next(self._numbers)}"
        commit = Commit(hashlib.sha1(seed.encode()).hexdigest(), parent, title, files)
        repo.commits[commit.oid] = commit
        return commit


def is_large(name: str, size: int) -> bool:
    return name.endswith(LFS_SUFFIXES) or size > LFS_BYTES

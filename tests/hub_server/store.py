"""What the small Hub stores: users, repositories, commits and files, and its JSON about them."""

import dataclasses
import hashlib
import json
import secrets
from typing import Any

import safetensors.numpy
import yaml

PREFIXES = {"model": "", "space": "spaces/", "dataset": "datasets/"}
LFS_SUFFIXES = (".safetensors", ".bin", ".parquet", ".pt")
LFS_BYTES = 10 * 2**20
"""Files above are stored as large files whatever their name, as on the Hub."""


class RefusedError(Exception):
    """A request the Hub answers with an error: its status, and the Hub's own code if it has one."""

    def __init__(self, status: int, message: str, code: str = "", **facts: str) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.facts = status, message, code, facts


@dataclasses.dataclass(frozen=True)
class Blob:
    """The content of a file."""

    data: bytes
    is_lfs: bool = False

    @property
    def etag(self) -> str:
        """SHA-256 of a large file, else git's name for the content."""
        if self.is_lfs:
            return hashlib.sha256(self.data).hexdigest()
        return hashlib.sha1(b"blob %d\0" % len(self.data) + self.data).hexdigest()

    def describe(self, name: str) -> dict[str, Any]:
        size, oid = len(self.data), self.etag
        answer = {"type": "file", "path": name, "rfilename": name, "size": size}
        lfs = {"oid": oid, "sha256": oid, "size": size, "pointerSize": 134}
        return answer | {"oid": oid, "blobId": oid} | ({"lfs": lfs} if self.is_lfs else {})


@dataclasses.dataclass(frozen=True)
class Commit:
    """One state of a repository."""

    parent: str
    title: str
    files: dict[str, Blob]
    oid: str = dataclasses.field(default_factory=lambda: secrets.token_hex(20))


@dataclasses.dataclass(frozen=True)
class User:
    """Who stands behind a token."""

    name: str
    can_write: bool = True


@dataclasses.dataclass
class Repo:
    """One model, Space or dataset."""

    kind: str
    id: str
    private: bool = False
    gated: bool = False
    """Who may read it beside its owner."""
    refs: dict[str, str] = dataclasses.field(default_factory=dict)
    """Branches, tags and pull requests."""
    commits: dict[str, Commit] = dataclasses.field(default_factory=dict)
    variables: dict[str, str] = dataclasses.field(default_factory=dict)
    secrets: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def owner(self) -> str:
        return self.id.split("/")[0]

    def resolve(self, revision: str) -> Commit:
        oid = self.refs.get(revision, revision)
        if oid not in self.commits:
            raise RefusedError(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return self.commits[oid]

    def files(self, revision: str = "main") -> dict[str, bytes]:
        files = self.resolve(revision).files
        return {name: blob.data for name, blob in files.items() if name != ".gitattributes"}

    def history(self, revision: str = "main") -> list[str]:
        commit = self.resolve(revision)
        return [commit.title, *(self.history(commit.parent) if commit.parent else [])]

    def commit(self, ref: str, title: str, files: dict[str, Blob], parent: str = "") -> Commit:
        commit = Commit(parent, title, files)
        self.commits[commit.oid], self.refs[ref] = commit, commit.oid
        return commit

    def describe(self, revision: str) -> dict[str, Any]:
        """Return what the Hub says of the repository at a revision."""
        commit = self.resolve(revision)
        texts = {name: blob.data for name, blob in commit.files.items()}
        card = read_card(texts.get("README.md"))
        library = card.get("library_name")
        tags = [*as_list(card.get("tags")), *as_list(card.get("language")), library]
        numbers = count_numbers(texts.get("model.safetensors"))
        answer = {
            "id": self.id,
            "author": self.owner,
            "sha": commit.oid,
            "private": self.private,
            "gated": "auto" if self.gated else False,
            "tags": list(dict.fromkeys(tag for tag in tags if isinstance(tag, str))),
            "lastModified": "2026-01-02T03:04:05.000Z",
            "cardData": card,
            "siblings": [blob.describe(name) for name, blob in sorted(commit.files.items())],
            "library_name": library if isinstance(library, str) else None,
            "model-index": card.get("model-index"),
            "safetensors": numbers and {"parameters": {"F32": numbers}, "total": numbers},
        }
        return {key: value for key, value in answer.items() if value is not None}


class Store:
    """All repositories and users."""

    def __init__(self) -> None:
        self.users: dict[str, User] = {}
        self.repos: dict[tuple[str, str], Repo] = {}
        self.objects: dict[str, bytes] = {}

    def find(self, kind: str, repo_id: str, user: User | None, *, content: bool = False) -> Repo:
        """Return a repository this user may see, and read if `content` is asked for."""
        repo = self.repos.get((kind, repo_id))
        knows = repo and user and user.name == repo.owner
        if repo is None or (repo.private and not knows):
            raise RefusedError(404 if user else 401, "Repository not found", "RepoNotFound")
        if content and repo.gated and not knows:
            raise RefusedError(403 if user else 401, "Access is restricted", "GatedRepo")
        return repo

    def create(self, kind: str, repo_id: str, *, private: bool = False) -> Repo:
        repo = self.repos[kind, repo_id] = Repo(kind, repo_id, private=private)
        repo.commit("main", "initial commit", {".gitattributes": Blob(b"*.safetensors filter=lfs")})
        return repo

    def put(self, repo_id: str, files: dict[str, bytes], *, kind: str = "model") -> Repo:
        """Commit files on `main` the way another person would, making the repository if need be."""
        repo = self.repos.get((kind, repo_id)) or self.create(kind, repo_id)
        added = {name: Blob(data, is_large(name, len(data))) for name, data in files.items()}
        self.objects |= {blob.etag: blob.data for blob in added.values() if blob.is_lfs}
        head = repo.resolve("main")
        repo.commit("main", "put", head.files | added, head.oid)
        return repo


def is_large(name: str, size: int) -> bool:
    return name.endswith(LFS_SUFFIXES) or size > LFS_BYTES


def read_card(data: bytes | None) -> dict[str, Any]:
    text = (data or b"").decode("utf-8", "replace")
    if not text.startswith("---\n") or "\n---" not in text[4:]:
        return {}
    try:
        head = yaml.safe_load(text[4:].split("\n---")[0])
    except Exception:  # as for others who read cards: the parser raises what it meets
        return {}
    return json.loads(json.dumps(head, default=str)) if isinstance(head, dict) else {}


def count_numbers(data: bytes | None) -> int | None:
    try:
        return (
            sum(tensor.size for tensor in safetensors.numpy.load(data).values()) if data else None
        )
    except safetensors.SafetensorError:
        return None


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []

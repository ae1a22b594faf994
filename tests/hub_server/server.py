"""The small Hub's HTTP on loopback, which keeps a list of what was asked, and its faults.

Downloads of large files are sent on to `/objects/`, as the Hub sends them to its storage.
"""

import base64
import contextlib
import dataclasses
import hashlib
import json
import re
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, unquote, urlsplit

from tests.hub_server.store import PREFIXES, Blob, RefusedError, Repo, Store, User, is_large

PIECE = 4096


@dataclasses.dataclass
class Fault:
    """One kind of trouble, for the requests that match."""

    path: str
    """Regular expression searched for in `METHOD /path`."""
    times: int | None = 1
    """How many requests it meets; None: for ever."""
    status: int = 0
    """Answer with this status and nothing else."""
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    """Sent with that status."""
    cut_after: int | None = None
    """Close the connection after this many bytes of the body, sent or received."""
    pause_s: float = 0.0
    """Wait this long before each small piece of the body."""
    lose_answer: bool = False
    """Do what was asked, then close the connection without a word."""
    before: Callable[[], None] | None = None
    """Called before the request is worked on."""


class Request(NamedTuple):
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class HubServer:
    """A Hub for one test; a context manager."""

    def __init__(self) -> None:
        self.store = Store()
        self.faults: list[Fault] = []
        self.requests: list[Request] = []
        self.edit: Callable[[dict[str, Any]], object] = lambda answer: None
        """Called with what is said of a repository, to say something else."""
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._http.daemon_threads = True
        self._http.block_on_close = False
        self._http.hub = self  # type: ignore[attr-defined]  # the handler's way to the store
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def storage_url(self) -> str:
        """Where large files lie: another host to the client, which gets no token there."""
        return self.url.replace("127.0.0.1", "localhost")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def asked(self, pattern: str) -> list[Request]:
        return [request for request in self.requests if re.search(pattern, str(request))]

    def repo(self, repo_id: str, kind: str = "model") -> Repo:
        return self.store.repos[kind, repo_id]

    def meet(self, request: Request) -> Fault:
        """Record a request; return its fault, and count it."""
        self.requests.append(request)
        for fault in self.faults:
            if fault.times != 0 and re.search(fault.path, str(request)):
                fault.times = fault.times and fault.times - 1
                return fault
        return Fault("")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are two writes; the second would wait
    fault: Fault

    @property
    def hub(self) -> HubServer:
        return self.server.hub  # type: ignore[attr-defined,no-any-return]

    def log_message(self, *_: Any) -> None:
        """Stay quiet."""

    def _work(self) -> None:
        split = urlsplit(self.path)
        self.query = {key: values[0] for key, values in parse_qs(split.query).items()}
        request = Request(self.command, unquote(self.path), dict(self.headers.items()))
        self.fault = self.hub.meet(request)
        try:
            if self.fault.before:
                self.fault.before()
            body = self._read_body()
            if self.fault.status:
                self._send(self.fault.status, b"", self.fault.headers)
            else:
                self._route(split.path, body)
        except RefusedError as refusal:
            headers = {"X-Error-Message": refusal.message, "X-Error-Code": refusal.code}
            body = json.dumps({"error": refusal.message, **refusal.facts}).encode()
            self._send(refusal.status, body, headers)
        except ConnectionError:
            self.close_connection = True

    do_GET = do_HEAD = do_POST = do_PUT = _work  # noqa: N815  # the names the library calls

    def _read_body(self) -> bytes:
        size = int(self.headers.get("Content-Length") or 0)
        is_cut = self.command == "PUT" and self.fault.cut_after is not None
        body = self.rfile.read(min(size, self.fault.cut_after or 0) if is_cut else size)
        if is_cut or len(body) < size:
            raise ConnectionError
        return body

    def _route(self, path: str, body: bytes) -> None:
        for method, pattern, name in ROUTES:
            match = re.fullmatch(pattern, path)
            if match and self.command in method.split("|"):
                known = {key: unquote(value) for key, value in match.groupdict("").items()}
                answer = getattr(self, name)(body=body, **known)
                if answer is not None:
                    self._send(200, json.dumps(answer).encode(), {})
                return
        raise RefusedError(404, f"no such page: {self.command} {path}")

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        fault = self.fault
        if fault.lose_answer:
            raise ConnectionError
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        for start in range(0, len(body) if self.command != "HEAD" else 0, PIECE):
            time.sleep(fault.pause_s)
            end = start + PIECE
            if fault.cut_after is not None and end > fault.cut_after:
                self.wfile.write(body[start : fault.cut_after])
                self.wfile.flush()
                raise ConnectionError
            self.wfile.write(body[start:end])

    # --- who asks, about what --------------------------------------------------------------------

    def _user(self) -> User | None:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token and token not in self.hub.store.users:
            raise RefusedError(401, "Invalid credentials in Authorization header")
        return self.hub.store.users.get(token)

    def _login(self) -> User:
        user = self._user()
        if user is None:
            raise RefusedError(401, "Invalid username or password.")
        return user

    def _readable(self, kind: str, repo_id: str) -> Repo:
        return self.hub.store.find(kind, repo_id, self._user(), content=True)

    def _writable(self, kind: str, repo_id: str) -> Repo:
        repo, user = self.hub.store.find(kind, repo_id, self._user()), self._login()
        if user.name != repo.owner or not user.can_write:
            raise RefusedError(403, "you don't have the rights to write to this repository")
        return repo

    def _wants_pr(self) -> bool:
        return self.query.get("create_pr", "").lower() in ("1", "true")

    # --- pages -----------------------------------------------------------------------------------

    def create_repo(self, body: bytes) -> dict[str, Any]:
        user, wish = self._login(), json.loads(body)
        kind, owner = wish.get("type") or "model", wish["organization"] or user.name
        repo_id = f"{owner}/{wish['name']}"
        url = f"{self.hub.url}/{PREFIXES[kind]}{repo_id}"
        if (kind, repo_id) in self.hub.store.repos:
            raise RefusedError(409, f"You already created this {kind} repo", url=url)
        if owner != user.name or not user.can_write:
            raise RefusedError(403, f"You don't have the rights to create a {kind} under {owner}")
        private = wish.get("visibility") == "private" or bool(wish.get("private"))
        self.hub.store.create(kind, repo_id, private=private)
        return {"url": url}

    def repo_info(self, body: bytes, kind: str, id: str, revision: str = "main") -> dict[str, Any]:
        answer = self.hub.store.find(kind, id, self._user()).describe(revision)
        self.hub.edit(answer)
        return answer

    def tree(self, body: bytes, kind: str, id: str, revision: str) -> list[dict[str, Any]]:
        files = self._readable(kind, id).resolve(revision).files
        return [blob.describe(name) for name, blob in sorted(files.items())]

    def create_branch(self, body: bytes, kind: str, id: str, branch: str) -> dict[str, Any]:
        repo = self._writable(kind, id)
        repo.refs.setdefault(branch, repo.refs["main"])
        return {}

    def preupload(self, body: bytes, kind: str, id: str, revision: str) -> dict[str, Any]:
        repo = self._readable(kind, id) if self._wants_pr() else self._writable(kind, id)
        present, files = repo.resolve(revision).files, []
        for file in json.loads(body)["files"]:
            mode = "lfs" if is_large(file["path"], file["size"]) else "regular"
            row = {"path": file["path"], "uploadMode": mode, "shouldIgnore": False}
            oid = {"oid": present[file["path"]].etag} if file["path"] in present else {}
            files.append(row | oid)
        return {"files": files}

    def lfs_batch(self, body: bytes, id: str, prefix: str) -> dict[str, Any]:
        objects = []
        for wish in json.loads(body)["objects"]:
            upload = {"href": f"{self.hub.storage_url}/objects/{wish['oid']}"}
            is_here = wish["oid"] in self.hub.store.objects
            objects.append(wish if is_here else wish | {"actions": {"upload": upload}})
        return {"transfer": "basic", "objects": objects}

    def put_object(self, body: bytes, oid: str) -> dict[str, Any]:
        assert hashlib.sha256(body).hexdigest() == oid
        self.hub.store.objects[oid] = body
        return {}

    def commit(self, body: bytes, kind: str, id: str, revision: str) -> dict[str, Any]:
        self._login()
        repo = self._readable(kind, id) if self._wants_pr() else self._writable(kind, id)
        items = [(item["key"], item["value"]) for item in map(json.loads, body.splitlines())]
        header, head = dict(items)["header"], repo.resolve(revision)
        if header.get("parentCommit") not in (None, head.oid) and not self._wants_pr():
            raise RefusedError(412, "A commit has happened since. Please refresh and try again.")
        files = dict(head.files)
        for key, value in items:
            if key == "file":
                files[value["path"]] = Blob(base64.b64decode(value["content"]))
            elif key == "lfsFile":
                files[value["path"]] = Blob(self.hub.store.objects[value["oid"]], is_lfs=True)
            elif key == "deletedFile":
                del files[value["path"]]
        number = 1 + sum(ref.startswith("refs/pr/") for ref in repo.refs)
        ref = f"refs/pr/{number}" if self._wants_pr() else revision
        commit = repo.commit(ref, header["summary"], files, head.oid)
        url = f"{self.hub.url}/{PREFIXES[kind]}{id}"
        answer = {"commitOid": commit.oid, "commitUrl": f"{url}/commit/{commit.oid}"}
        pull_request = {"pullRequestUrl": f"{url}/discussions/{number}"}
        return answer | (pull_request if self._wants_pr() else {})

    def validate_yaml(self, body: bytes) -> dict[str, Any]:
        return {"errors": [], "warnings": []}

    def download(self, body: bytes, id: str, revision: str, name: str, prefix: str) -> None:
        (kind,) = (kind for kind, known in PREFIXES.items() if known == prefix)
        commit = self._readable(kind, id).resolve(revision)
        if name not in commit.files:
            raise RefusedError(404, "Entry not found", "EntryNotFound")
        blob = commit.files[name]
        headers = {"X-Repo-Commit": commit.oid, "ETag": f'"{blob.etag}"'}
        if not blob.is_lfs:
            self._send(200, blob.data, headers)
            return
        headers |= {
            "Location": f"{self.hub.storage_url}/objects/{blob.etag}",
            "X-Linked-Etag": f'"{blob.etag}"',
            "X-Linked-Size": str(len(blob.data)),
        }
        self._send(302, b"", headers)

    def get_object(self, body: bytes, oid: str) -> None:
        self._send(200, self.hub.store.objects[oid], {"ETag": f'"{oid}"'})

    def list_repos(self, body: bytes, kind: str) -> list[dict[str, Any]]:
        found, query = [], self.query
        for _, repo in sorted(self.hub.store.repos.items()):
            with contextlib.suppress(RefusedError):
                self.hub.store.find(repo.kind, repo.id, self._user())
                row = repo.describe("main")
                self.hub.edit(row)
                fits = repo.kind == kind and query.get("filter") in (None, *row["tags"])
                fits = fits and query.get("author") in (None, repo.owner)
                if fits and query.get("search", "").lower() in repo.id.lower():
                    found.append(row)
        return found[: int(query["limit"])]

    def whoami(self, body: bytes) -> dict[str, Any]:
        name = self._login().name
        return {"type": "user", "name": name, "fullname": name, "avatarUrl": "", "orgs": []}

    def space_settings(self, body: bytes, id: str, which: str) -> dict[str, Any]:
        space = self._writable("space", id)
        if self.command == "POST":
            wish = json.loads(body)
            getattr(space, which)[wish["key"]] = wish["value"]
        return {key: {"value": value} for key, value in space.variables.items()}


REPO = r"/api/(?P<kind>model|space|dataset)s/(?P<id>[^/]+/[^/]+)"
FILE = r"/(?P<prefix>spaces/|datasets/)?(?P<id>[^/]+/[^/]+)"
ROUTES: list[tuple[str, str, str]] = [
    ("POST", r"/api/repos/create", "create_repo"),
    ("POST", r"/api/validate-yaml", "validate_yaml"),
    ("GET", r"/api/whoami-v2", "whoami"),
    ("GET", r"/api/(?P<kind>model|space|dataset)s", "list_repos"),
    ("GET", REPO, "repo_info"),
    ("GET", rf"{REPO}/revision/(?P<revision>[^/]+)", "repo_info"),
    ("GET", rf"{REPO}/tree/(?P<revision>[^/]+)", "tree"),
    ("POST", rf"{REPO}/branch/(?P<branch>[^/]+)", "create_branch"),
    ("POST", rf"{REPO}/preupload/(?P<revision>[^/]+)", "preupload"),
    ("POST", rf"{REPO}/commit/(?P<revision>[^/]+)", "commit"),
    ("POST", rf"{FILE}\.git/info/lfs/objects/batch", "lfs_batch"),
    ("PUT", r"/objects/(?P<oid>[0-9a-f]+)", "put_object"),
    ("GET|HEAD", r"/objects/(?P<oid>[0-9a-f]+)", "get_object"),
    ("GET|HEAD", rf"{FILE}/resolve/(?P<revision>[^/]+)/(?P<name>.+)", "download"),
    ("GET|POST", r"/api/spaces/(?P<id>[^/]+/[^/]+)/(?P<which>variables|secrets)", "space_settings"),
]

"""The small Hub's HTTP.

Takes requests on loopback, gives answers as the Hub does, keeps a list of what was asked. Downloads
of large files are sent on to `/objects/`, as the Hub sends them to its storage.
"""

import base64
import contextlib
import json
import re
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, unquote, urlsplit

from tests.hub_server import answers
from tests.hub_server.faults import Fault, Faults
from tests.hub_server.store import KINDS, PREFIXES, Blob, RefusedError, Repo, Store, User, is_large

PIECE = 4096
REPO = r"/api/(?P<kind>model|space|dataset)s/(?P<id>[^/]+/[^/]+)"
FILE = r"/(?P<prefix>spaces/|datasets/)?(?P<id>[^/]+/[^/]+)"
ANY_REPO = rf"{FILE}\.git"


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
        self.faults = Faults()
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


class _CutError(Exception):
    """The connection is to be closed at once."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are two writes; the second would wait
    fault: Fault | None

    @property
    def hub(self) -> HubServer:
        return self.server.hub  # type: ignore[attr-defined,no-any-return]

    def log_message(self, *_: Any) -> None:
        """Stay quiet."""

    def _work(self) -> None:
        split = urlsplit(self.path)
        self.query = parse_qs(split.query)
        request = Request(self.command, unquote(self.path), dict(self.headers.items()))
        self.hub.requests.append(request)
        self.fault = self.hub.faults.meet(str(request))
        try:
            if self.fault and self.fault.before:
                self.fault.before()
            body = self._read_body()
            if self.fault and self.fault.status:
                self._send(self.fault.status, b"", self.fault.headers)
                return
            self._route(split.path, body)
        except RefusedError as refusal:
            self._refuse(refusal)
        except (_CutError, ConnectionError):
            self.close_connection = True

    do_GET = do_HEAD = do_POST = do_PUT = _work  # noqa: N815  # the names the library calls

    def _read_body(self) -> bytes:
        size = int(self.headers.get("Content-Length") or 0)
        cut = self.fault.cut_after if self.fault and self.command == "PUT" else None
        if cut is not None:
            self.rfile.read(min(cut, size))
            raise _CutError
        if len(body := self.rfile.read(size)) < size:
            raise _CutError
        return body

    def _route(self, path: str, body: bytes) -> None:
        for method, pattern, name in ROUTES:
            match = re.fullmatch(pattern, path)
            if match and self.command in method.split("|"):
                known = {k: unquote(v) for k, v in match.groupdict().items() if v is not None}
                changes = self.command in ("POST", "PUT")
                with self.hub.store.lock if changes else contextlib.nullcontext():
                    answer = getattr(self, name)(body=body, **known)
                if answer is not None:
                    self._json(answer)
                return
        raise RefusedError(404, f"no such page: {self.command} {path}")

    # --- answers ---------------------------------------------------------------------------------

    def _json(self, values: Any, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(values).encode()
        self._send(200, body, {"Content-Type": "application/json", **(headers or {})})

    def _refuse(self, refusal: RefusedError) -> None:
        headers = {"Content-Type": "application/json", "X-Error-Message": refusal.message}
        if refusal.code:
            headers["X-Error-Code"] = refusal.code
        body = json.dumps({"error": refusal.message, **refusal.facts}).encode()
        self._send(refusal.status, body, headers)

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        fault = self.fault or Fault("")
        if fault.lose_answer:
            raise _CutError
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        for start in range(0, len(body) if self.command != "HEAD" else 0, PIECE):
            if fault.pause_s:
                time.sleep(fault.pause_s)
            end = start + PIECE
            if fault.cut_after is not None and end > fault.cut_after:
                self.wfile.write(body[start : fault.cut_after])
                self.wfile.flush()
                raise _CutError
            self.wfile.write(body[start:end])

    # --- who asks, about what --------------------------------------------------------------------

    def _user(self) -> User | None:
        header = self.headers.get("Authorization")
        return self.hub.store.user(header.removeprefix("Bearer ") if header else None)

    def _readable(self, kind: str, repo_id: str) -> Repo:
        return self.hub.store.find(kind, repo_id, self._user(), content=True)

    def _writable(self, kind: str, repo_id: str) -> Repo:
        return self.hub.store.find_to_write(kind, repo_id, self._user())

    def _asks(self, name: str) -> bool:
        return self.query.get(name, ["false"])[0].lower() in ("1", "true")

    # --- pages -----------------------------------------------------------------------------------

    def create_repo(self, body: bytes) -> dict[str, Any]:
        user, wish = self._user(), json.loads(body)
        if user is None:
            raise RefusedError(401, "Invalid username or password.")
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
        repo = self.hub.store.find(kind, id, self._user())
        answer = answers.describe_repo(repo, revision, blobs=self._asks("blobs"))
        self.hub.edit(answer)
        return answer

    def tree(self, body: bytes, kind: str, id: str, revision: str) -> list[dict[str, Any]]:
        files = self._readable(kind, id).resolve(revision).files
        return [answers.describe_file(name, blob) for name, blob in sorted(files.items())]

    def create_branch(self, body: bytes, kind: str, id: str, branch: str) -> dict[str, Any]:
        repo = self._writable(kind, id)
        if branch in repo.branches:
            raise RefusedError(409, f"Reference already exists: {branch}")
        start = json.loads(body or b"{}").get("startingPoint", "main")
        repo.branches[branch] = repo.resolve(start).oid
        return {}

    def preupload(self, body: bytes, kind: str, id: str, revision: str) -> dict[str, Any]:
        repo = self._readable(kind, id)
        if not self._asks("create_pr"):
            self._writable(kind, id)
        present = repo.resolve(revision).files
        files = []
        for file in json.loads(body)["files"]:
            mode = "lfs" if is_large(file["path"], file["size"]) else "regular"
            row = {"path": file["path"], "uploadMode": mode, "shouldIgnore": False}
            oid = {"oid": present[file["path"]].etag} if file["path"] in present else {}
            files.append(row | oid)
        return {"files": files}

    def lfs_batch(self, body: bytes, id: str, prefix: str = "") -> dict[str, Any]:
        self._readable(KINDS[prefix], id)
        objects = []
        for wish in json.loads(body)["objects"]:
            row = {"oid": wish["oid"], "size": wish["size"]}
            if wish["oid"] not in self.hub.store.objects:
                href = f"{self.hub.storage_url}/objects/{wish['oid']}"
                row["actions"] = {"upload": {"href": href}}
            objects.append(row)
        return {"transfer": "basic", "objects": objects}

    def put_object(self, body: bytes, oid: str) -> dict[str, Any]:
        if Blob(body).sha256 != oid:
            raise RefusedError(400, "the content does not have this sha256")
        self.hub.store.objects[oid] = body
        return {}

    def commit(self, body: bytes, kind: str, id: str, revision: str) -> dict[str, Any]:
        wants_pr, store = self._asks("create_pr"), self.hub.store
        repo = self._readable(kind, id) if wants_pr else self._writable(kind, id)
        if self._user() is None:
            raise RefusedError(401, "Invalid username or password.")
        header: dict[str, Any] = {}
        add: dict[str, Blob] = {}
        delete: list[str] = []
        for line in body.splitlines():
            item = json.loads(line)
            key, value = item["key"], item["value"]
            if key == "header":
                header = value
            elif key == "file":
                add[value["path"]] = Blob(base64.b64decode(value["content"]))
            elif key == "lfsFile":
                if value["oid"] not in store.objects:
                    raise RefusedError(400, f"{value['path']}: its content was not uploaded")
                add[value["path"]] = Blob(store.objects[value["oid"]], is_lfs=True)
            elif key == "deletedFile":
                delete.append(value["path"])
        commit, number = store.commit(
            repo,
            revision,
            title=header["summary"],
            add=add,
            delete=delete,
            parent=header.get("parentCommit"),
            pull_request=wants_pr,
        )
        url = f"{self.hub.url}/{PREFIXES[kind]}{id}"
        answer = {"commitOid": commit.oid, "commitUrl": f"{url}/commit/{commit.oid}"}
        return answer | ({"pullRequestUrl": f"{url}/discussions/{number}"} if number else {})

    def validate_yaml(self, body: bytes) -> dict[str, Any]:
        return {"errors": [], "warnings": []}

    def download(self, body: bytes, id: str, revision: str, name: str, prefix: str = "") -> None:
        commit = self._readable(KINDS[prefix], id).resolve(revision)
        if name not in commit.files:
            raise RefusedError(404, "Entry not found", "EntryNotFound")
        blob = commit.files[name]
        headers = {"X-Repo-Commit": commit.oid, "ETag": f'"{blob.etag}"'}
        if not blob.is_lfs:
            self._send(200, blob.data, headers)
            return
        headers |= {
            "Location": f"{self.hub.storage_url}/objects/{blob.sha256}",
            "X-Linked-Etag": f'"{blob.etag}"',
            "X-Linked-Size": str(len(blob.data)),
        }
        self.fault = None
        self._send(302, b"", headers)

    def get_object(self, body: bytes, oid: str) -> None:
        if oid not in self.hub.store.objects:
            raise RefusedError(404, "no such object")
        self._send(200, self.hub.store.objects[oid], {"ETag": f'"{oid}"'})

    def list_repos(self, body: bytes, kind: str) -> None:
        user, query = self._user(), {key: values[0] for key, values in self.query.items()}
        wanted = self.query.get("filter", [])
        found = []
        for (repo_kind, repo_id), repo in sorted(self.hub.store.repos.items()):
            with contextlib.suppress(RefusedError):
                self.hub.store.find(repo_kind, repo_id, user)
                row = answers.describe_repo(repo, "main")
                self.hub.edit(row)
                fits = repo_kind == kind and set(wanted) <= set(row["tags"])
                fits = fits and query.get("author", repo.owner) == repo.owner
                if fits and query.get("search", "").lower() in repo_id.lower():
                    found.append(row)
        self._json(found[: int(query["limit"])])

    def whoami(self, body: bytes) -> dict[str, Any]:
        user = self._user()
        if user is None:
            raise RefusedError(401, "Invalid username or password.")
        return {
            "type": "user",
            "name": user.name,
            "fullname": user.name,
            "avatarUrl": "",
            "orgs": [],
        }

    def space_settings(self, body: bytes, id: str, which: str) -> dict[str, Any]:
        stored = {"variables": self._writable("space", id).variables}
        stored["secrets"] = self._writable("space", id).secrets
        if self.command == "POST":
            wish = json.loads(body)
            stored[which][wish["key"]] = wish["value"]
        return {key: {"value": value} for key, value in stored["variables"].items()}


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
    ("POST", rf"{ANY_REPO}/info/lfs/objects/batch", "lfs_batch"),
    ("PUT", r"/objects/(?P<oid>[0-9a-f]+)", "put_object"),
    ("GET|HEAD", r"/objects/(?P<oid>[0-9a-f]+)", "get_object"),
    ("GET|HEAD", rf"{FILE}/resolve/(?P<revision>[^/]+)/(?P<name>.+)", "download"),
    ("GET|POST", r"/api/spaces/(?P<id>[^/]+/[^/]+)/(?P<which>variables|secrets)", "space_settings"),
]

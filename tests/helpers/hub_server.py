"""A hub on this machine: serves folders as repositories, with the hub's own HTTP interface.

huggingface_hub asks it as it asks huggingface.co: model info, tree, resolve; errors have the hub's
codes. Every request is kept, with its token.
"""

import hashlib
import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


@dataclass
class Hub:
    """Repositories by name; of each the folders by commit, the newest last."""

    repositories: dict = field(default_factory=dict)
    branches: dict = field(default_factory=dict)
    """(repository, branch or tag) -> commit."""
    private: dict = field(default_factory=dict)
    """Repository -> the token that it asks for."""
    gated: set = field(default_factory=set)
    ill: dict = field(default_factory=dict)
    """The end of a path -> what becomes of its requests: a status of HTTP, `cut` (the connection
    ends after half of the bytes) or `other` (as many other bytes)."""
    says: dict = field(default_factory=dict)
    """What it says in the place of the truth: `sha`, or the name of a header of a file's answer."""
    asked: list = field(default_factory=list)
    """(method, path, token) of every request."""
    url: str = ""

    def push(self, repository, folder, *, branch="main"):
        """A commit with the files of a folder; its hash depends on their bytes."""
        files = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        whole = hashlib.sha1(repository.encode())
        for name, data in files.items():
            whole.update(name.encode() + data)
        commit = whole.hexdigest()
        self.repositories.setdefault(repository, {})[commit] = files
        self.branches[repository, branch] = commit
        return commit

    def environment(self, cache):
        """What a process sets to ask this hub alone, with a cache of its own."""
        return {
            "HF_ENDPOINT": self.url,
            "HF_HOME": str(cache),
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_OFFLINE": "0",
            "HF_TOKEN": "",
        }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *given):
        """Say nothing."""

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        hub, path = self.server.hub, unquote(urlsplit(self.path).path)
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        hub.asked.append((self.command, path, token))
        told = path.split("/")[1:]
        self._illness = next((how for end, how in hub.ill.items() if path.endswith(end)), None)
        if isinstance(self._illness, int):
            self._answer(self._illness, b"ill", {})
        elif told[:2] == ["api", "models"]:
            self._tell(hub, "/".join(told[2:4]), told[4:], token)
        elif "resolve" in told:
            at = told.index("resolve")
            self._give(hub, "/".join(told[:at]), told[at + 1], "/".join(told[at + 2 :]), token)
        else:
            self._refuse(404, "EntryNotFound", f"no such page: {path}")

    def _commit(self, hub, repository, revision, token):
        """The commit, or None and the answer was given."""
        if repository not in hub.repositories or token != hub.private.get(repository, token):
            self._refuse(401, "RepoNotFound", "Repository not found")
            return None
        if repository in hub.gated:
            self._refuse(403, "GatedRepo", f"Access to model {repository} is restricted")
            return None
        commit = hub.branches.get((repository, revision), revision)
        if commit not in hub.repositories[repository]:
            self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return None
        return commit

    def _tell(self, hub, repository, rest, token):
        kind, revision = rest[:1], rest[1] if len(rest) > 1 else "main"
        commit = self._commit(hub, repository, revision, token)
        if commit is None:
            return
        files = hub.repositories[repository][commit]
        if kind == ["tree"]:
            whole = "recursive=true" in self.path.lower()
            body = [_entry(name, files[name]) for name in files if whole or "/" not in name]
        else:
            siblings = [{"rfilename": name} for name in files]
            body = {"id": repository, "modelId": repository, "sha": commit, "siblings": siblings}
            body["sha"] = hub.says.get("sha", commit)
        self._answer(200, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def _give(self, hub, repository, revision, name, token):
        commit = self._commit(hub, repository, revision, token)
        if commit is None:
            return
        data = hub.repositories[repository][commit].get(name)
        if data is None:
            self._refuse(404, "EntryNotFound", f"{name} is not in {repository}")
            return
        etag = _entry(name, data)["oid"]
        if name.endswith(".safetensors"):
            etag = hashlib.sha256(data).hexdigest()
        self._answer(200, data, {"ETag": f'"{etag}"', "X-Repo-Commit": commit} | hub.says)

    def _refuse(self, status, code, message):
        self._answer(status, b"{}", {"X-Error-Code": code, "X-Error-Message": message})

    def _answer(self, status, data, headers):
        if self._illness == "other":
            data = bytes(255 - byte for byte in data)
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET" and self._illness == "cut":
            self.wfile.write(data[: len(data) // 2])
            self.close_connection = True
        elif self.command == "GET":
            self.wfile.write(data)


def _entry(name, data):
    """A file in a tree; the hub keeps weights in LFS, and in git a pointer to them."""
    entry = {"type": "file", "path": name, "size": len(data), "oid": _git_hash(data)}
    if name.endswith(".safetensors"):
        sha256 = hashlib.sha256(data).hexdigest()
        pointer = "version https://git-lfs.github.com/spec/v1\n"
        pointer += f"oid sha256:{sha256}\nsize {len(data)}\n"
        entry["oid"] = _git_hash(pointer.encode())
        entry["lfs"] = {"oid": sha256, "size": len(data), "pointerSize": len(pointer)}
    return entry


def _git_hash(data):
    return hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest()


@contextmanager
def served():
    """A hub that answers on a port of this machine until the block ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.hub = Hub(url=f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server.hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

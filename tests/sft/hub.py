"""A model hub of one process: what huggingface_hub asks of one to make a repository and upload a folder to it."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

TOKEN = "hf_of_a_test"


class Hub(ThreadingHTTPServer):
    """Keeps what is uploaded: files by name, and the repositories that were made, by name, with what was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.made: dict[str, dict[str, object]] = {}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        self._answer(200, {"id": "somebody/small", "sha": "0" * 40, "siblings": []})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/api/validate-yaml":
            self._answer(200, {"errors": [], "warnings": []})
        elif self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._answer(401, {"error": "who are you?"})
        elif self.path == "/api/repos/create":
            asked = json.loads(body)
            self.server.made[asked["name"]] = asked
            self._answer(200, {"url": f"{self.server.address}/somebody/small", "id": "somebody/small"})
        elif "/preupload/" in self.path:
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in json.loads(body)["files"]
            ]
            self._answer(200, {"files": files})
        elif "/commit/" in self.path:
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    self.server.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            self._answer(200, {"commitUrl": f"{self.server.address}/somebody/small/commit/1", "commitOid": "1" * 40})
        else:
            self._answer(404, {"error": self.path})

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _answer(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def serving() -> Iterator[Hub]:
    """Serve a hub within it."""
    with Hub() as hub:
        thread = Thread(target=hub.serve_forever, daemon=True)
        thread.start()
        yield hub
        hub.shutdown()
        thread.join()

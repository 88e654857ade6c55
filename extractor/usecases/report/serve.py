"""Serve the page of runs on this machine, made anew whenever their files have changed."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from extractor.usecases.report.page import render
from extractor.usecases.report.runs import files_of, read_runs
from extractor.values.errors import UsageError

HOST = "127.0.0.1"
# A page elsewhere whose host name was made to point here must not read what the model wrote.
KNOWN_HOSTS = {HOST, "localhost"}


class ReportServer(ThreadingHTTPServer):
    """Answers `/` with the page, and `/version` with what tells an open page that there is a newer one.

    Args:
        paths: of the runs.
        port: on the loopback interface; 0: any that is free, which `server_port` names.
        share: of the time may go into making the page, which takes seconds for a very long run.

    Raises:
        OSError: the port is taken, or may not be used.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, paths: Sequence[Path], port: int, share: float = 0.1) -> None:
        self.paths = list(paths)
        self.share = share
        self._lock = threading.Lock()
        self._made: tuple[str, bytes] = ("", b"")
        self._rest_until = 0.0
        super().__init__((HOST, port), _Handler)

    def version(self) -> str:
        """Return what changes when a file of a run does, but not before the page may be made again."""
        if time.monotonic() < self._rest_until:
            return self._made[0]
        seen = hashlib.sha256()
        for path in self.paths:
            for file in files_of(path).values():
                state = file.stat() if file.exists() else None
                seen.update(repr((str(file), state and (state.st_mtime_ns, state.st_size))).encode())
        return seen.hexdigest()[:16]

    def page(self) -> bytes:
        """Return the page as of now."""
        with self._lock:
            version = self.version()
            if version != self._made[0]:
                begin = time.monotonic()
                self._made = version, render(read_runs(self.paths), version).encode(errors="backslashreplace")
                end = time.monotonic()
                self._rest_until = end + (end - begin) / self.share
            return self._made[1]


class _Handler(BaseHTTPRequestHandler):
    server: ReportServer

    def do_GET(self) -> None:
        """Answer a request; only what asks for this machine by its own name gets anything."""
        host = self.headers.get("Host", "").partition(":")[0]
        if host not in KNOWN_HOSTS:
            self.send_error(HTTPStatus.FORBIDDEN)
            return
        try:
            if self.path == "/":
                self._send(self.server.page(), "text/html; charset=utf-8")
            elif self.path == "/version":
                self._send(self.server.version().encode(), "text/plain; charset=utf-8")
            else:
                self.send_error(HTTPStatus.NOT_FOUND)
        except UsageError as error:  # a run has been moved or deleted
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, explain=str(error))

    def _send(self, body: bytes, kind: str) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base class
        """Say nothing: a page asks every few seconds."""

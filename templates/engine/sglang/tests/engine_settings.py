# vextract:template - edit freely; upgrades merge your edits
"""What the tests add to the settings of a run: a server that stands in for SGLang."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sglang_double import Model, serve


@pytest.fixture
def engine_settings(model_path: Path) -> Iterator[Callable[[], list[str]]]:
    """A function that gives settings for one run, on the toy model: the URL of a server that has just been started."""
    servers = []

    def settings() -> list[str]:
        server = serve(Model(str(model_path)))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return [f"local.server.url=http://127.0.0.1:{server.server_address[1]}"]

    yield settings
    for server in servers:
        server.shutdown()
        server.server_close()

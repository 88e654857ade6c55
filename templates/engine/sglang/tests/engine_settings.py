# vextract:template - edit freely
"""What the tests add to the settings of a run: a server that stands in for SGLang."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from sglang_double import Model, serve

from __package__.data.toy import ensure_toy_model
from __package__.errors import ConfigError
from __package__.settings.loading import load_config


@pytest.fixture
def engine_settings(tmp_path: Path) -> Iterator[Callable[[Sequence[str]], list[str]]]:
    """A function from the overrides of a run to those that it needs besides: the URL of a server for its model."""
    servers = []

    def settings(overrides: Sequence[str]) -> list[str]:
        try:
            config = load_config(Path(__file__).parents[1] / "config", overrides)
        except ConfigError:  # which is what the test is about
            return []
        path = config.actor_rollout_ref.model.path
        if path is None:
            task = config.data.env.task
            path = str(ensure_toy_model(tmp_path / "served" / f"toy_model_{task}", task=task))
        server = serve(Model(path))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        url = f"http://127.0.0.1:{server.server_address[1]}"
        return [f"local.server.url={url}", "local.seed=2"]  # a seed with which the first batch earns something

    yield settings
    for server in servers:
        server.shutdown()
        server.server_close()

"""What a server that the trainer starts does with several GPUs, as far as no GPU is needed to see it."""

from __future__ import annotations

import contextlib
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

KINDS = {
    "vllm": ("vserved", "vllm_server", "VllmServer", "--data-parallel-size", "--tensor-parallel-size"),
    "sglang": ("sgserved", "sglang_server", "SglangServer", "--dp-size", "--tp-size"),
}


@pytest.fixture(params=sorted(KINDS))
def kind(verl: None, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A kind of server as a machine with GPUs has it, its config, and the names of its options."""
    package, module, name, *options = KINDS[request.param]
    root: Path = request.getfixturevalue(f"{request.param}_project")
    monkeypatch.syspath_prepend(str(root))
    found = import_module(f"{package}.workers.servers.{module}")
    monkeypatch.setattr(found, "on_gpu", lambda: True)
    load = import_module(f"{package}.settings.loading").load_config
    config = load(root / "config", ["actor_rollout_ref.model.path=model", "actor_rollout_ref.rollout.mode=async"])
    config.actor_rollout_ref.rollout.dtype = "bfloat16"
    return SimpleNamespace(server=getattr(found, name), config=config, options=options, package=package)


@pytest.mark.parametrize(("together", "copies"), [(1, "8"), (2, "4"), (8, "1")])
def test_a_server_uses_every_gpu(kind: Any, together: int, copies: str) -> None:
    kind.config.actor_rollout_ref.rollout.tensor_model_parallel_size = together
    words = kind.server.command(kind.config, 1, 64, 8)
    assert [words[words.index(option) + 1] for option in kind.options] == [copies, str(together)]


def test_gpus_that_would_have_nothing_to_do_are_refused_or_left_on_purpose(kind: Any) -> None:
    kind.config.actor_rollout_ref.rollout.tensor_model_parallel_size = 3
    error = import_module(f"{kind.package}.errors").ConfigError
    with pytest.raises(error, match="does not divide the 8 GPUs"):
        kind.server.command(kind.config, 1, 64, 8)
    kind.config.local.server.arguments = [kind.options[0], "1"]
    words = kind.server.command(kind.config, 1, 64, 8)
    assert words.count(kind.options[0]) == 1
    assert words[words.index(kind.options[0]) + 1] == "1"


def test_memory_is_given_back_before_an_engine_wakes(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process does it, before the rollout and before weights go over: the engine may be on any one's GPU."""
    rollouts = import_module(f"{kind.package}.training.rollouts")
    seen: list[str] = []

    class Engine:
        @contextlib.contextmanager
        def session(self) -> Any:
            seen.append("wakes")
            yield

        def generate_sequences(self, prompts: Any) -> Any:
            return prompts

        def finish(self) -> None: ...

        def sync_weights(self) -> None:
            seen.append("takes weights")

    monkeypatch.setattr(rollouts, "empty_cache", lambda: seen.append("cache is emptied"))
    ranks = SimpleNamespace(spread=lambda function, batch: function(batch), together=lambda function: function())
    prompts = SimpleNamespace(non_tensor_batch={}, batch={}, meta_info={})
    monkeypatch.setattr(rollouts, "DataProto", lambda *parts: prompts)
    made = rollouts.Rollouts(kind.config, None, ranks, Engine())
    made.generate(prompts)
    made.sync_weights()
    assert seen == ["cache is emptied", "wakes", "cache is emptied", "takes weights"]

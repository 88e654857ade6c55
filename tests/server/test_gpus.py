"""What a server that the trainer starts does with several GPUs, as far as no GPU is needed to see it."""

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

KINDS = {
    "vllm": ("vll", "vllm_server", "VllmServer", "--data-parallel-size", "--tensor-parallel-size"),
    "sglang": ("sgl", "sglang_server", "SglangServer", "--dp-size", "--tp-size"),
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


def test_a_server_uses_every_gpu(kind: Any) -> None:
    """Those that would have nothing to do are refused, or left on purpose."""
    rollout = kind.config.actor_rollout_ref.rollout
    for together, copies in ((1, "8"), (2, "4"), (8, "1")):
        rollout.tensor_model_parallel_size = together
        words = kind.server.command(kind.config, 1, 64, 8)
        assert [words[words.index(option) + 1] for option in kind.options] == [copies, str(together)]
    rollout.tensor_model_parallel_size = 3
    with pytest.raises(import_module(f"{kind.package}.errors").ConfigError, match="does not divide the 8 GPUs"):
        kind.server.command(kind.config, 1, 64, 8)
    kind.config.local.server.arguments = [kind.options[0], "1"]
    words = kind.server.command(kind.config, 1, 64, 8)
    assert words.count(kind.options[0]) == 1
    assert words[words.index(kind.options[0]) + 1] == "1"


def test_a_server_may_have_gpus_of_its_own(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = import_module(f"{kind.package}.workers.servers.arguments")
    error = import_module(f"{kind.package}.errors").ConfigError
    monkeypatch.setattr(arguments.torch.cuda, "device_count", lambda: 8)
    server = kind.config.local.server
    assert arguments.own_gpus(kind.config) is None
    for devices, numbers in ((["cuda:4", "cuda:6"], [4, 6]), ([7], [7])):
        server.devices = devices
        assert arguments.own_gpus(kind.config) == numbers
    for devices, said in (
        (["cuda:8"], "torch finds 8 GPUs"),
        (["cuda:1", 1], "name each GPU once"),
    ):
        server.devices = devices
        with pytest.raises(error, match=said):
            arguments.own_gpus(kind.config)
    server.devices, server.url = ["cuda:4"], "http://127.0.0.1:1"
    with pytest.raises(error, match="for a server that the trainer starts"):
        arguments.own_gpus(kind.config)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert arguments.seen_by([4, 6]) == "4,6"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "9,8,7,6,5")
    assert arguments.seen_by([4, 0]) == "5,9"

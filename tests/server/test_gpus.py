"""What a server that the trainer starts does with several GPUs, as far as no GPU is needed to see it."""

from importlib import import_module
from pathlib import Path

import pytest

KINDS = {
    "vllm": ("vll", "VllmServer", "--data-parallel-size", "--tensor-parallel-size"),
    "sglang": ("sgl", "SglangServer", "--dp-size", "--tp-size"),
}


@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize("kind", KINDS)
def test_a_server_uses_every_gpu_or_those_of_its_own(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Those that would have nothing to do are refused, or left on purpose."""
    package, name, copies, together = KINDS[kind]
    root: Path = request.getfixturevalue(f"{kind}_project")
    monkeypatch.syspath_prepend(str(root))
    names = (f"workers.servers.{kind}_server", "workers.servers.arguments", "settings.loading", "errors")
    module, arguments, loading, error = (import_module(f"{package}.{one}") for one in names)
    monkeypatch.setattr(module, "on_gpu", lambda: True)
    monkeypatch.setattr(arguments.torch.cuda, "device_count", lambda: 8)
    settings = ["actor_rollout_ref.model.path=x", "actor_rollout_ref.rollout.mode=async"]
    config = loading.load_config(root / "config", settings)
    rollout, server = config.actor_rollout_ref.rollout, config.local.server
    rollout.dtype = "bfloat16"

    def words() -> list[str]:
        return list(getattr(module, name).command(config, 1, 64, 8))

    for size, number in ((1, "8"), (2, "4"), (8, "1")):
        rollout.tensor_model_parallel_size = size
        assert [words()[words().index(option) + 1] for option in (copies, together)] == [number, str(size)]
    rollout.tensor_model_parallel_size = 3
    with pytest.raises(error.ConfigError, match="does not divide the 8 GPUs"):
        words()
    server.arguments = [copies, "1"]
    assert (words().count(copies), words()[words().index(copies) + 1]) == (1, "1")

    assert arguments.own_gpus(config) is None
    for devices, found in (
        (["cuda:4", "cuda:6"], [4, 6]),
        (["cuda:8"], "torch finds 8 GPUs"),
        (["cuda:1", 1], "name each GPU once"),
    ):
        server.devices = devices
        if isinstance(found, list):
            assert arguments.own_gpus(config) == found
            continue
        with pytest.raises(error.ConfigError, match=found):
            arguments.own_gpus(config)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "9,8,7,6,5")
    assert arguments.seen_by([4, 0]) == "5,9"

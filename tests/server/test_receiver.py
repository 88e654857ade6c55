"""What vLLM's workers tell of an update that one of them cannot take; the class imports nothing of vLLM for that."""

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def module(vllm_project: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that vLLM's process imports."""
    monkeypatch.syspath_prepend(str(vllm_project))
    return importlib.import_module("vll.workers.servers.vllm_weights")


def receiver(module: Any, copy: int) -> Any:
    """A worker that holds the whole of a copy of the model."""
    found = module.WeightReceiver()
    found.rank = 0
    found.vllm_config = SimpleNamespace(parallel_config=SimpleNamespace(data_parallel_index=copy, world_size=1))
    return found


def refuse(receiver: Any, path: str) -> None:
    """Take no weights."""
    raise ValueError(f"{path} has another shape")


def test_what_went_wrong_is_told(module: Any) -> None:
    """The first copy returns it, another one raises it, since vLLM drops what that returns."""
    answer = module._answering(refuse)(receiver(module, 0), "bucket-0")
    assert answer == {"error": "ValueError: bucket-0 has another shape"}
    with pytest.raises(RuntimeError, match="copy 1 of the model: ValueError: bucket-0 has another shape"):
        module._answering(refuse)(receiver(module, 1), "bucket-0")
    for copy in (0, 1):
        assert module._answering(lambda receiver: None)(receiver(module, copy)) == {"done": True}
    # A step that raised in the first copy would end vLLM's call with nothing said of why.
    for step in ("start_weights", "load_weights_file", "finish_weights"):
        assert hasattr(getattr(module.WeightReceiver, step), "__wrapped__"), step

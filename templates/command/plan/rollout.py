"""The lines of a plan that are those of the engine which writes responses."""

from typing import Any

from omegaconf import OmegaConf

from ..shims.device import to_dtype
from ..workers.rollout_interface import NEUTRAL, sampling_of
from .plan import MemoryPlan
from .shapes import CannotTrace, ModelShape
from .sizes import device_of

ROLLOUT = "actor_rollout_ref.rollout"
# Of each word of the vocabulary, for each row, while a token is drawn: logits and probabilities in float32, their sums
# in float64; and the scores that temperature, top_k and the like make of the logits.
DRAWING, WARPING = 4 + 4 + 8, 4


def add_rollout(plan: MemoryPlan, config: Any, policy: ModelShape) -> None:
    """Add what the engine holds.

    Args:
        plan: gets the lines.
        config: the whole config.
        policy: what the policy looks like.
    """
    rollout = config.actor_rollout_ref.rollout
    if rollout.mode == "async":
        _add_server(plan, config)
    elif rollout.name == "hf":
        _add_own_loop(plan, config, policy)
    else:
        _add_engine(plan, config, policy)


def _add_own_loop(plan: MemoryPlan, config: Any, policy: ModelShape) -> None:
    """Add what transformers' `generate` holds with this project's decoding loop and its cache."""
    rollout, data = config.actor_rollout_ref.rollout, config.data
    away = plan.device != "cpu" and device_of(config, "rollout") == "cpu"
    if plan.processes > 1 or device_of(config, "rollout") not in (None, device_of(config, "policy")):
        whole = sum(weight.numel() for weight in policy.module.parameters()) * policy.kept.itemsize
        plan.add("rollout: a copy of the weights", whole, rests=away)
    filters = (config.algorithm.get("filter_groups") or {}).get("enable")
    prompts = data.gen_batch_size or data.train_batch_size if filters else None
    own = -(-(prompts or data.train_batch_size) * rollout.n // plan.processes)
    rows = min(config.local.rollout_micro_batch_size or own, own)
    different = max(1, -(-rows // rollout.n))
    try:
        reading, of_token = policy.reading(different, data.max_prompt_length)
    except CannotTrace as error:
        plan.notes.append(f"keys and values of responses ({error})")
        return
    length = data.max_prompt_length + data.max_response_length
    layers = max(1, int(getattr(policy.module.config.get_text_config(), "num_hidden_layers", 1)))
    cache = rows * length * of_token
    cache += cache // layers  # of the layer that moves to where there is more room
    plan.add("keys and values", cache, ["gen"], rests=away)
    warps = any(value != NEUTRAL[name] for name, value in sampling_of(rollout, {"do_sample": True}).items())
    drawing = rows * policy.vocabulary * (DRAWING + WARPING * warps)
    plan.add("logits", max(drawing, reading.logits), ["gen"], rests=away)
    before = reading.activations + different * data.max_prompt_length * of_token
    plan.add("activations", max(0, before - cache), ["gen"], rests=away)
    plan.add("copies for autocast", reading.copies, ["gen"], rests=away)
    if data.val_files is not None and data.val_batch_size is None:
        plan.notes.append("validation, whose prompts are all answered at once (data.val_batch_size is null)")


def _add_engine(plan: MemoryPlan, config: Any, policy: ModelShape) -> None:
    """Add what vLLM holds in this process: on a GPU the share that it is given, of which weights are a part."""
    rollout = config.actor_rollout_ref.rollout
    together = int(rollout.tensor_model_parallel_size)
    base = policy.module.get_base_model() if hasattr(policy.module, "peft_config") else policy.module
    weights = sum(one.numel() for name, one in base.named_parameters() if "lora_" not in name)
    weights = weights * to_dtype(rollout.dtype).itemsize // together
    if plan.device == "cpu":
        given = OmegaConf.select(config, f"{ROLLOUT}.engine_kwargs.{rollout.name}.kv_cache_memory_bytes")
        plan.add("engine: weights", weights)
        from ..workers.vllm_setup import CPU_KV_CACHE_BYTES

        plan.add("keys and values", given or CPU_KV_CACHE_BYTES)
        return
    share = int(rollout.gpu_memory_utilization * plan.capacity)
    phases = ["gen"] if rollout.free_cache_engine else None
    plan.add("engine: weights", min(weights, share), phases)
    plan.add("engine: keys and values, and the rest", share - weights, phases)
    if weights >= share:
        plan.notes.append(
            f"keys and values of the engine: {ROLLOUT}.gpu_memory_utilization={rollout.gpu_memory_utilization} does "
            "not even hold its weights, and it will not start"
        )


def _add_server(plan: MemoryPlan, config: Any) -> None:
    """Add what a server holds of the memory that this process computes in."""
    server, rollout = config.local.server, config.actor_rollout_ref.rollout
    if plan.device == "cpu" or server.url is not None or server.devices is not None:
        plan.notes.append("the server that writes responses, which has memory of its own")
        return
    sleeps = rollout.free_cache_engine if server.sleep is None else server.sleep
    share = rollout.gpu_memory_utilization * plan.capacity
    plan.add("server", share, ["gen"] if sleeps else None)

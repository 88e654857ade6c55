"""What a vendored actor and critic compute on a tiny model, and what plain transformers computes."""

from types import SimpleNamespace
from typing import Any

import torch
from omegaconf import OmegaConf

from extractor.values import releases
from tests.fixes.support import Vendored, tiny_model, token_batch

RESPONSE = 4
TEMPERATURE = 0.8


def actor_log_probs(package: Vendored, dtype: str, *, remove_padding: bool = False) -> torch.Tensor:
    """Log-probabilities of the responses, (3, RESPONSE) float32."""
    if has_engine(package):
        return engine_outputs(package, "FSDPEngineWithLMHead", tiny_model(), dtype, remove_padding)["log_probs"]
    config = OmegaConf.create(
        {
            "use_remove_padding": remove_padding,
            "use_fused_kernels": False,
            "use_torch_compile": False,
            "ulysses_sequence_parallel_size": 1,
            "entropy_from_logits_with_chunking": False,
            "entropy_checkpointing": False,
            "fsdp_config": {"dtype": dtype},
        }
    )
    actor = package.get("vendored.workers.dp_actor", "DataParallelPPOActor")(config, tiny_model())
    meta = {"micro_batch_size": 3, "temperature": TEMPERATURE, "use_dynamic_bsz": False}
    outputs = actor.compute_log_prob(_data(package, meta))
    log_probs = outputs["log_probs"] if isinstance(outputs, dict) else outputs[0]  # by name since 0.7.1
    return _masked(log_probs)


def critic_values(package: Vendored, dtype: str, *, remove_padding: bool = False) -> torch.Tensor:
    """Values of the responses' tokens, (3, RESPONSE) float32."""
    if has_engine(package):
        model = tiny_model("Qwen2ForTokenClassification")
        return engine_outputs(package, "FSDPEngineWithValueHead", model, dtype, remove_padding)["values"]
    config = OmegaConf.create(
        {
            "model": {"use_remove_padding": remove_padding, "fsdp_config": {"dtype": dtype}},
            "ulysses_sequence_parallel_size": 1,
        }
    )
    model = tiny_model("Qwen2ForTokenClassification")
    critic = package.get("vendored.workers.dp_critic", "DataParallelPPOCritic")(config, model, None)
    values = critic.compute_values(_data(package, {"micro_batch_size": 3, "use_dynamic_bsz": False}))
    return _masked(values)


def has_engine(package: Vendored) -> bool:
    """Whether the release has its training engine, and no actor and critic of their own."""
    return any(
        role.name == "actor" and "transformer_impl" in role.symbols[0] for role in releases.load(package.release).roles
    )


def engine_outputs(
    package: Vendored, name: str, module: torch.nn.Module, dtype: str, remove_padding: bool
) -> dict[str, torch.Tensor]:
    """What the vendored engine infers of the responses' tokens: each (3, RESPONSE) float32."""
    config = package.get("vendored.workers.config.engine", "FSDPEngineConfig")(
        strategy="fsdp2", use_torch_compile=False
    )
    model = SimpleNamespace(use_remove_padding=remove_padding, lora_rank=0)
    engine = package.get("vendored.workers.engine.fsdp.transformer_impl", name)(model, config, None, None)
    engine.module, engine.optimizer = module, None
    engine._autocast_dtype = getattr(torch, dtype)
    data = _data(package, {"temperature": TEMPERATURE})
    data.batch["prompts"] = data.batch["input_ids"][:, :-RESPONSE]
    padding = package.module("vendored.workers.utils.padding")
    batch = padding.left_right_2_no_padding(data.to_tensordict())
    package.get("vendored.utils.tensordict_utils", "assign_non_tensor")(
        batch, use_dynamic_bsz=False, micro_batch_size_per_gpu=3, use_remove_padding=remove_padding
    )
    with engine.eval_mode(disable_auto_offload=True):
        outputs = engine.infer_batch(batch)["model_output"]
    return {key: _masked(padding.no_padding_2_padding(value, batch)) for key, value in outputs.items()}


def plain_log_probs() -> torch.Tensor:
    """The same log-probabilities by transformers alone."""
    log_probs = (_plain_logits(tiny_model()) / TEMPERATURE).log_softmax(-1)
    return _masked(log_probs.gather(-1, token_batch(response=RESPONSE)["responses"][..., None])[..., 0])


def plain_values() -> torch.Tensor:
    """The same values by transformers alone."""
    return _masked(_plain_logits(tiny_model("Qwen2ForTokenClassification").eval())[..., 0])


@torch.no_grad()
def _plain_logits(model: Any) -> torch.Tensor:
    batch = token_batch(response=RESPONSE)
    inputs = {key: batch[key] for key in ("input_ids", "attention_mask", "position_ids")}
    return model(**inputs).logits[:, -RESPONSE - 1 : -1]


def _data(package: Vendored, meta: dict[str, Any]) -> Any:
    return package.get("vendored.protocol", "DataProto").from_dict(
        tensors=token_batch(response=RESPONSE), meta_info=meta
    )


def _masked(values: torch.Tensor) -> torch.Tensor:
    return values.float() * token_batch(response=RESPONSE)["response_mask"]

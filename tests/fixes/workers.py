"""What a vendored actor and critic compute on a tiny model, and what plain transformers computes."""

from __future__ import annotations

from typing import Any

import torch
from omegaconf import OmegaConf

from tests.fixes.support import Vendored, tiny_model, token_batch

RESPONSE = 4
TEMPERATURE = 0.8


def actor_log_probs(package: Vendored, dtype: str, *, remove_padding: bool = False) -> torch.Tensor:
    """Log-probabilities of the responses, (3, RESPONSE) float32."""
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
    actor = package.get("workers.dp_actor", "DataParallelPPOActor")(config, tiny_model())
    meta = {"micro_batch_size": 3, "temperature": TEMPERATURE, "use_dynamic_bsz": False}
    outputs = actor.compute_log_prob(_data(package, meta))
    log_probs = outputs["log_probs"] if isinstance(outputs, dict) else outputs[0]  # by name since 0.7.1
    return _masked(log_probs)


def critic_values(package: Vendored, dtype: str, *, remove_padding: bool = False) -> torch.Tensor:
    """Values of the responses' tokens, (3, RESPONSE) float32."""
    config = OmegaConf.create(
        {
            "model": {"use_remove_padding": remove_padding, "fsdp_config": {"dtype": dtype}},
            "ulysses_sequence_parallel_size": 1,
        }
    )
    model = tiny_model("Qwen2ForTokenClassification")
    critic = package.get("workers.dp_critic", "DataParallelPPOCritic")(config, model, None)
    values = critic.compute_values(_data(package, {"micro_batch_size": 3, "use_dynamic_bsz": False}))
    return _masked(values)


@torch.no_grad()
def plain_log_probs() -> torch.Tensor:
    """The same log-probabilities by transformers alone."""
    batch = token_batch(response=RESPONSE)
    inputs = {key: batch[key] for key in ("input_ids", "attention_mask", "position_ids")}
    logits = tiny_model()(**inputs).logits[:, -RESPONSE - 1 : -1] / TEMPERATURE
    return _masked(logits.log_softmax(-1).gather(-1, batch["responses"][..., None])[..., 0])


@torch.no_grad()
def plain_values() -> torch.Tensor:
    """The same values by transformers alone."""
    batch = token_batch(response=RESPONSE)
    inputs = {key: batch[key] for key in ("input_ids", "attention_mask", "position_ids")}
    logits = tiny_model("Qwen2ForTokenClassification").eval()(**inputs).logits
    return _masked(logits[:, -RESPONSE - 1 : -1, 0])


def _data(package: Vendored, meta: dict[str, Any]) -> Any:
    return package.get("protocol", "DataProto").from_dict(tensors=token_batch(response=RESPONSE), meta_info=meta)


def _masked(values: torch.Tensor) -> torch.Tensor:
    return values.float() * token_batch(response=RESPONSE)["response_mask"]

# vextract:template - edit freely; upgrades merge your edits
"""The rollout by vLLM, in this same process.

An engine is whatever has the methods of `RolloutEngine` that have no underscore.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from ..protocol import DataProto
from ..training.distributed import Ranks
from ..utils.device import get_device_id, get_device_name
from .trained_model import TrainedModel
from .vllm_setup import vllm_arguments, vllm_settings

# vLLM would run its core in another process, where weights could not be handed over.
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")

from .vllm_rollout_spmd import vLLMRollout  # noqa: E402


class RolloutEngine(vLLMRollout):
    """Upstream's rollout by vLLM, with the weights of the policy.

    Weights go over before the next rollout after an update. With rollout.free_cache_engine the engine gives its memory
    back after each rollout, and its weights with it.

    Args:
        config: the whole config.
        policy: the model that is trained.
    """

    def __init__(self, config: Any, tokenizer: Any, ranks: Ranks, policy: TrainedModel) -> None:
        self.policy = policy
        self.sends_cpu_head = get_device_name() == "cpu"
        self.up_to_date = False
        settings = vllm_settings(config, ranks)
        self.frees_memory = bool(settings["free_cache_engine"])
        super().__init__(**vllm_arguments(config, settings, tokenizer))
        self.tokenizer = tokenizer
        self._sleep()

    def generate_sequences(self, prompts: DataProto, **kwargs: Any) -> DataProto:
        """Write a response to each prompt.

        Args:
            prompts: input_ids, attention_mask, position_ids, (bs, prompt_length) int64, padded on the left. `meta_info`
                may have do_sample and validate.

        Returns:
            prompts (bs, prompt_length), responses (bs, response_length), and for both together input_ids,
            attention_mask, position_ids, (bs, prompt_length + response_length); int64, padded on the right, on the CPU.
            With rollout.calculate_log_probs also rollout_log_probs, (bs, response_length) float32.
        """
        self._wake("weights")
        if not self.up_to_date:
            self._send_weights()
            self.up_to_date = True
        self._wake("kv_cache")
        generation_config = self.policy.module.generation_config
        eos, pad = generation_config.eos_token_id, generation_config.pad_token_id  # type: ignore[union-attr]
        meta_info = {
            **prompts.meta_info,
            "eos_token_id": self.tokenizer.eos_token_id if eos is None else eos,
            "pad_token_id": self.tokenizer.pad_token_id if pad is None else pad,
        }
        batch = prompts.batch.to(get_device_id())
        responses = super().generate_sequences(DataProto(batch, dict(prompts.non_tensor_batch), meta_info), **kwargs)
        self._sleep()
        output: DataProto = responses.to("cpu")
        return output

    def session(self) -> contextlib.AbstractContextManager[object]:
        """Within it the engine may write responses."""
        return contextlib.nullcontext()

    def sync_weights(self) -> None:
        """The policy has changed: its weights go over before the next rollout."""
        self.up_to_date = False

    def close(self) -> None:
        """Give back what the engine holds."""
        del self.inference_engine

    @torch.no_grad()
    def _send_weights(self) -> None:
        """Hand over all weights, through vLLM's own way of reading a checkpoint."""
        weights = self.policy.full_weights()
        self.inference_engine.collective_rpc("reload_weights", kwargs={"weights_iterator": self._named(weights)})
        self.inference_engine.reset_prefix_cache()

    def _named(self, weights: Iterable[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
        tied = self.policy.module.config.tie_word_embeddings  # type: ignore[union-attr]
        for name, weight in weights:
            if name == "lm_head.weight" and tied and not self.sends_cpu_head:
                continue
            yield name, weight
        # On a CPU vLLM keeps a packed copy of the output matrix, and would not notice that its twin has changed.
        if tied and self.sends_cpu_head and "lm_head.weight" not in weights:
            embeddings = self.policy.module.get_input_embeddings().weight  # type: ignore[operator]
            yield "lm_head.weight", next(value for value in weights.values() if value.shape == embeddings.shape)

    def _wake(self, part: str) -> None:
        if self.frees_memory:
            self.inference_engine.wake_up(tags=[part])

    def _sleep(self) -> None:
        self.inference_engine.reset_prefix_cache()
        if self.frees_memory:
            self.inference_engine.sleep(level=2)
            self.up_to_date = False

# vextract:template engine/hf/__package__/workers/rollout_engine.py - edit freely
"""The rollout by transformers' `generate`, with a decoding loop for many rows: nothing to install or to wait for.

An engine is whatever has the methods of `RolloutEngine` in rollout_interface.py.
"""

import functools
from types import SimpleNamespace
from typing import Any

import torch
from omegaconf import OmegaConf

from ..errors import ConfigError
from ..run.distributed import Ranks, random_state, set_random_state
from ..shims.device import computing_on, here
from ..vendored.protocol import DataProto, pad_dataproto_to_divisor, unpad_dataproto
from ..vendored.workers.hf_rollout import HFRollout
from .decoding import decode
from .rollout_interface import Ended, end_tokens, sampling_of
from .rollout_interface import RolloutEngine as Engine
from .trained_model import TrainedModel

WHOLE_SEQUENCE = ("input_ids", "attention_mask", "position_ids")


def build_rollout_engine(config: Any, tokenizer: Any, ranks: Ranks, policy: TrainedModel) -> "RolloutEngine":
    """Return the engine that `actor_rollout_ref.rollout` describes. Every process must call this."""
    if config.actor_rollout_ref.rollout.mode != "sync":
        raise ConfigError(
            "actor_rollout_ref.rollout.mode=async asks for a server, and this project generates with transformers",
            "vextract upgrade --engine vllm (or sglang); or leave actor_rollout_ref.rollout.mode=sync",
        )
    return RolloutEngine(config, tokenizer, ranks, policy)


class RolloutEngine(HFRollout, Engine):
    """Upstream's rollout by transformers, made complete.

    One process generates with the trained model itself, unless rollouts have a device of their own. Several hold it in
    pieces, and their responses end at different times, so each generates with a whole copy of its own.

    Args:
        config: the whole config.
        policy: the model that is trained.
    """

    def __init__(self, config: Any, tokenizer: Any, ranks: Ranks, policy: TrainedModel) -> None:
        rollout: Any = OmegaConf.to_container(config.actor_rollout_ref.rollout, resolve=True)
        rollout["n"] = 1  # the trainer has repeated the prompts already
        if config.local.rollout_micro_batch_size:
            rollout["micro_batch_size"] = config.local.rollout_micro_batch_size
        self.config = OmegaConf.create(rollout)
        self.policy, self.tokenizer = policy, tokenizer
        self.ends = end_tokens(tokenizer, policy.module, config.data.get("apply_chat_template_kwargs"))
        self.device = here()
        self.shares_weights = ranks.world_size == 1 and self.device == policy.device
        with computing_on(self.device):
            self.model: Any = policy.module if self.shares_weights else self._whole_copy()
        # What upstream's code calls.
        self.module: Any = SimpleNamespace(eval=self.model.eval, train=self.model.train, generate=self._generate)
        if not self.shares_weights:
            self.sync_weights()

    def generate_sequences(self, prompts: DataProto, ended: Ended | None = None) -> DataProto:
        """Write a response to each prompt; see `RolloutEngine` in rollout_interface.py.

        Log-probabilities of the tokens are the policy's own: only `vextract add watch` has them looked at.
        """
        ends = {"eos_token_id": [*self.ends], "pad_token_id": self.tokenizer.pad_token_id}
        meta_info = {**prompts.meta_info, **ends}
        most = int(meta_info.get("response_length", self.config.response_length))
        columns = {name: prompts.batch[name] for name in WHOLE_SEQUENCE}
        # Leading columns that are padding in every row are cut off; at least one column stays.
        used = columns["attention_mask"][:, :-1].any(dim=0)
        first = int(used.int().argmax()) if used.any() else len(used)
        inputs = {name: value[..., first:].to(self.device) for name, value in columns.items()}
        if meta_info.get("do_sample", self.config.do_sample):
            # For all rows at once, so that it does not matter which of them are written together.
            inputs["uniforms"] = torch.rand((len(prompts), most), dtype=torch.float64).to(self.device)
        # Upstream's passes are equally long, and a batch of any length may come.
        size = min(self.config.get("micro_batch_size", len(prompts)), len(prompts))
        batch = DataProto.from_dict(inputs, meta_info=meta_info)
        padded, padding = pad_dataproto_to_divisor(batch, size)
        with computing_on(self.device):
            output: DataProto = unpad_dataproto(HFRollout.generate_sequences(self, padded), padding).to("cpu")
        for name in WHOLE_SEQUENCE:
            output.batch[name] = torch.cat([columns[name][..., :first].cpu(), output.batch[name]], dim=-1)
        output.batch["prompts"] = columns["input_ids"].cpu()
        output.non_tensor_batch = {k: v for k, v in prompts.non_tensor_batch.items() if k != "raw_prompt_ids"}
        return output

    @torch.no_grad()
    def sync_weights(self) -> None:
        """Take over the policy's weights, after each update. Every process must call this."""
        if self.shares_weights:
            return
        own = self.model.state_dict(keep_vars=True)
        for name, weight in self.policy.full_weights(device=None):
            own[name].copy_(weight)

    def _generate_minibatch(self, prompts: DataProto) -> DataProto:
        """Write the responses of a pass as upstream does, and keep the pass for `_generate`."""
        self._pass = prompts
        output: DataProto = super()._generate_minibatch(prompts)
        return output

    def _generate(self, generation_config: Any, **settings: Any) -> Any:
        """Call the model's `generate`, with the sampling settings that upstream's code does not pass.

        The model's generation config is put aside meanwhile: `generate` would fill in from it what is not set.
        """
        batch, meta_info = self._pass.batch, self._pass.meta_info
        sampling = sampling_of(self.config, meta_info)
        generation_config.min_p = sampling["min_p"] or None
        generation_config.repetition_penalty = sampling["repetition_penalty"]
        loop = functools.partial(decode, uniforms=batch.get("uniforms"))
        settings["custom_generate"] = loop
        model = self.model
        own, model.generation_config = model.generation_config, type(model.generation_config)()
        try:
            return self.model.generate(generation_config=generation_config, **settings)
        finally:
            model.generation_config = own

    def _whole_copy(self) -> torch.nn.Module:
        """Return the policy's architecture, with random weights."""
        from transformers import AutoModelForCausalLM

        policy: Any = self.policy.module
        before = random_state()
        with here():
            module = AutoModelForCausalLM.from_config(policy.config)
        set_random_state(before)
        return module.requires_grad_(False).to(next(policy.parameters()).dtype)

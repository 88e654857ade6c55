# vextract:template engine/hf/__package__/workers/rollout_engine.py - edit freely
"""The rollout by transformers' `generate`, with a decoding loop for many rows: nothing to install or to wait for.

An engine is whatever has the three methods of `RolloutEngine`.
"""

import contextlib
import functools
from typing import Any

import torch
import transformers
from omegaconf import OmegaConf
from packaging.version import Version

from ..run.distributed import Ranks, random_state, set_random_state
from ..tracking.timing import advance, begin, expect
from ..vendored.protocol import DataProto, pad_dataproto_to_divisor, unpad_dataproto
from ..vendored.workers.hf_rollout import HFRollout
from .devices import computing_on, here
from .end_tokens import end_tokens
from .rollout_interface import Ended, gives_log_probs
from .sampling import sampling_of
from .trained_model import TrainedModel

WHOLE_SEQUENCE = ("input_ids", "attention_mask", "position_ids")
# From here on `generate` takes a decoding loop.
TAKES_LOOP = Version(transformers.__version__) >= Version("4.57")


class RolloutEngine(HFRollout):
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
        self.policy = policy
        self.tokenizer = tokenizer
        self.ends = end_tokens(tokenizer, policy.module, config.data.get("apply_chat_template_kwargs"))
        self.device = here()
        self.shares_weights = ranks.world_size == 1 and self.device == policy.device
        with computing_on(self.device):
            self.model: Any = policy.module if self.shares_weights else self._whole_copy()
        self.module: Any = _Generator(self.model)  # what upstream's code calls
        self._ended: Ended | None = None
        if not self.shares_weights:
            self.sync_weights()

    def generate_sequences(self, prompts: DataProto, ended: Ended | None = None) -> DataProto:
        """Write a response to each prompt.

        Args:
            prompts: input_ids, attention_mask, position_ids, (bs, prompt_length) int64, padded on the left. `meta_info`
                may have do_sample, validate, response_length, and the settings of sampling.
            ended: is told the responses that have ended while others are still written.

        Returns:
            prompts (bs, prompt_length), responses (bs, response_length), and for both together input_ids,
            attention_mask, position_ids, (bs, prompt_length + response_length); int64, padded on the right, on the CPU.
            With rollout.calculate_log_probs also rollout_log_probs, (bs, response_length) float32, 0 after the end of a
            response, if the project's own decoding loop can write for this model.
        """
        meta_info = {
            **prompts.meta_info,
            "eos_token_id": [*self.ends],
            "pad_token_id": self.tokenizer.pad_token_id,
        }
        columns = {name: prompts.batch[name] for name in WHOLE_SEQUENCE}
        first = common_left_padding(columns["attention_mask"])
        inputs = {name: value[..., first:].to(self.device) for name, value in columns.items()}
        if meta_info.get("do_sample", self.config.do_sample):
            # For all rows at once, so that it does not matter which of them are written together.
            inputs["uniforms"] = torch.rand((len(prompts), self._most_steps(prompts)), dtype=torch.float64)
            inputs["uniforms"] = inputs["uniforms"].to(self.device)
        inputs["rows"] = torch.arange(len(prompts))
        # Upstream's passes are equally long, and a batch of any length may come.
        pass_length = min(self.config.get("micro_batch_size", 1), len(prompts))
        padded, padding = pad_dataproto_to_divisor(DataProto.from_dict(inputs, meta_info=meta_info), pass_length)
        passes = len(padded) // self.config.get("micro_batch_size", len(padded)) or 1
        expect(passes * self._most_steps(padded), "decode steps")
        self._ended = ended
        with computing_on(self.device):
            output: DataProto = unpad_dataproto(super().generate_sequences(padded), padding).to("cpu")
        for name in WHOLE_SEQUENCE:
            output.batch[name] = torch.cat([columns[name][..., :first].cpu(), output.batch[name]], dim=-1)
        output.batch["prompts"] = columns["input_ids"].cpu()
        output.non_tensor_batch = {k: v for k, v in prompts.non_tensor_batch.items() if k != "raw_prompt_ids"}
        return output

    def session(self) -> contextlib.AbstractContextManager[object]:
        """Have what generates on its device within it."""
        return contextlib.nullcontext()

    def finish(self) -> None:
        """Do nothing: no other process needs this one for its responses."""

    @torch.no_grad()
    def sync_weights(self) -> None:
        """Take over the policy's weights, after each update. Every process must call this."""
        if self.shares_weights:
            return
        own = self.model.state_dict(keep_vars=True)
        for name, weight in self.policy.full_weights(device=None):
            own[name].copy_(weight)

    def close(self) -> None:
        """Give back what the engine holds: nothing that its owner does not hold as well."""

    async def update_weights(self, weights: Any, **kwargs: Any) -> None:
        """Do nothing: upstream's interface has it, and `sync_weights` does it here."""

    async def resume(self, tags: list[str]) -> None:
        """Do nothing: upstream's interface has it, and nothing was given back."""

    async def release(self) -> None:
        """Do nothing: upstream's interface has it; the weights are the policy's own, or a copy that stays."""

    def _generate_minibatch(self, prompts: DataProto) -> DataProto:
        """Generate as upstream does, and count the decode steps: each looks up the embedding of one token per row."""
        steps: list[int] = []

        def count(*_: Any) -> None:
            steps.append(1)
            begin(1)

        hook = self.model.get_input_embeddings().register_forward_pre_hook(count)
        self.module.sampling = sampling_of(self.config, prompts.meta_info)
        self.module.uniforms = prompts.batch.get("uniforms")
        self.module.log_probs = [] if gives_log_probs(self.config, prompts.meta_info) else None
        self.module.ended = None
        if (tell := self._ended) is not None:
            rows = prompts.batch["rows"].tolist()
            self.module.ended = lambda row, tokens: tell(rows[row], tokens)
        try:
            output: DataProto = super()._generate_minibatch(prompts)
        finally:
            hook.remove()
        advance(self._most_steps(prompts) - len(steps))  # those that no row needed any more
        if self.module.ended is not None:  # of this pass; others may follow
            mask = output.batch["attention_mask"][:, -output.batch["responses"].shape[-1] :]
            lengths = mask.sum(dim=-1).tolist()
            for row, (tokens, length) in enumerate(zip(output.batch["responses"].tolist(), lengths, strict=True)):
                self.module.ended(row, tokens[:length])
        for found in self.module.log_probs or ():
            missing = output.batch["responses"].shape[-1] - found.shape[-1]
            output.batch["rollout_log_probs"] = torch.nn.functional.pad(found, (0, missing))
        return output

    def _most_steps(self, prompts: DataProto) -> int:
        """Return how many tokens a response to these prompts may have."""
        return int(prompts.meta_info.get("response_length", self.config.response_length))

    def _whole_copy(self) -> torch.nn.Module:
        """Return the policy's architecture, with random weights."""
        from transformers import AutoModelForCausalLM

        policy: Any = self.policy.module
        before = random_state()
        with here():
            module = AutoModelForCausalLM.from_config(policy.config)
        set_random_state(before)
        return module.requires_grad_(False).to(next(policy.parameters()).dtype)


def common_left_padding(attention_mask: torch.Tensor) -> int:
    """Count the columns of prompts that are padding in every row, (bs, prompt_length); the last one never is."""
    used = attention_mask[:, :-1].any(dim=0)
    return int(used.int().argmax()) if used.any() else attention_mask.shape[-1] - 1


class _Generator:
    """The model as upstream's rollout calls it: `generate` with the decoding loop of this project.

    Attributes:
        sampling: how tokens are drawn, see `sampling_of`.
        uniforms: random numbers for each token of each row, (bs, tokens) float64; None: no token is drawn.
        log_probs: receives the log-probabilities of the tokens, see `decode`; None: they are not computed.
        ended: is told the rows that have ended while others go on, see `decode`.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.sampling: dict[str, float] = {}
        self.uniforms: torch.Tensor | None = None
        self.log_probs: list[torch.Tensor] | None = None
        self.ended: Ended | None = None

    def eval(self) -> None:
        """Have the model compute as it does to write, without dropout."""
        self.model.eval()

    def train(self) -> None:
        """Have the model compute as it does to learn."""
        self.model.train()

    def generate(self, generation_config: Any, **settings: Any) -> Any:
        """Write responses as transformers' `generate` does, by upstream's settings and those that it has no place for.

        `generate` takes what they leave open from the model's generation config, so that this is put aside meanwhile.
        """
        generation_config.min_p = self.sampling["min_p"] or None
        generation_config.repetition_penalty = self.sampling["repetition_penalty"]
        settings["generation_config"] = generation_config
        if TAKES_LOOP:
            from .decoding import decode

            loop = functools.partial(decode, uniforms=self.uniforms, log_probs=self.log_probs, ended=self.ended)
            settings["custom_generate"] = loop
        # An adapter writes by that of the model below it.
        model = self.model.get_base_model() if hasattr(self.model, "peft_config") else self.model
        own = model.generation_config
        model.generation_config = type(own)()
        try:
            return self.model.generate(**settings)
        finally:
            model.generation_config = own

# vextract:template - edit freely
"""The critic: a model with one number per token, trained to foretell the reward."""

import time
from typing import Any

from omegaconf import OmegaConf

from ..run.distributed import Ranks
from ..shims.device import computing_on, here
from ..switches import MFU, PLACEMENT, SHARDED_CHECKPOINTS
from ..training.flops import flops_metrics
from ..vendored.protocol import DataProto
from .critic import SharedCritic
from .device_map import device_of
from .models import load_model, place_model
from .own_shares import shares_reader
from .policy import resolve_sizes
from .trained_model import TrainedModel


class Critic(TrainedModel):
    """The vendored critic around a model with a value head.

    Args:
        config: the whole config.
        path: where its weights are: a language model (the value head is then new), or a checkpoint; null for the
            configured model.
        total_steps: of the run, for the learning rate.
    """

    section_name, optim_name = "critic.model", "critic.optim"

    def __init__(self, config: Any, tokenizer: Any, ranks: Ranks, path: str | None, total_steps: int) -> None:
        self.section = section = config.critic
        self.tokenizer = tokenizer
        if SHARDED_CHECKPOINTS:
            self._goes_on = path is not None  # from a checkpoint, which has a value head
        path = path or section.model.path or config.actor_rollout_ref.model.path
        fsdp_config = section.model.fsdp_config
        node = OmegaConf.create(resolve_sizes(section, config.actor_rollout_ref.rollout.n, ranks.world_size))
        if MFU:
            self._world_size = ranks.world_size
        with computing_on(device_of(config, "policy") if PLACEMENT else here()):
            module = place_model(self.module_at(path, ranks), fsdp_config, ranks)
            super().__init__(module, section.optim, fsdp_config, tokenizer, ranks, total_steps)
            self.critic = SharedCritic(node, self.module, self.optimizer)
        self.critic.passes.share_between(ranks)

    def module_at(self, path: str, ranks: Ranks) -> Any:
        """Return a new model with a value head, and the weights at `path`."""
        from transformers import AutoModelForTokenClassification

        # Without dropout, so that values do not depend on chance.
        settings: dict[str, Any] = {"num_labels": 1, "classifier_dropout": 0.0, "summary_dropout_prob": 0.0}
        model, auto_class = self.section.model, AutoModelForTokenClassification
        arguments: Any = path, model, model.fsdp_config, self.tokenizer, auto_class, ranks
        if SHARDED_CHECKPOINTS and self._goes_on:
            settings["reader"] = shares_reader(path, model.fsdp_config, ranks)
        return load_model(*arguments, **settings)

    def compute_values(self, batch: DataProto) -> DataProto:
        """Return the value at each response token: `values`, (bs, response_length) float32, 0 outside the response."""
        with self.at_work():
            values = self.critic.compute_values(self._prepare(batch))
        return DataProto.from_dict({"values": values.float().cpu()})

    def update(self, batch: DataProto) -> dict[str, Any]:
        """Train on a batch: all its mini-batches, ppo_epochs times.

        Args:
            batch: the global batch, the same on every process, with `values`, `returns`, `response_mask`,
                (bs, response_length).

        Returns:
            Metrics named critic/*; those of mini- and micro-batches are lists.
        """
        part = self.critic.passes.part_of(batch)
        with self.at_work():
            prepared = self._prepare(part)
            if MFU:
                start = time.perf_counter()
            metrics: dict[str, Any] = self.critic.update_critic(prepared)
            if MFU:
                seconds, epochs = time.perf_counter() - start, self.section.ppo_epochs
                metrics.update(flops_metrics("critic", self.module, batch, seconds, epochs, self._world_size))
            self.is_usable = self.has_usable_weights()
        metrics["critic/lr"] = self.step_learning_rate()
        return metrics

    def _prepare(self, batch: DataProto) -> DataProto:
        meta_info = {
            **batch.meta_info,
            "micro_batch_size": self.section.forward_micro_batch_size_per_gpu,
            "max_token_len": self.section.forward_max_token_len_per_gpu,
            "use_dynamic_bsz": self.section.use_dynamic_bsz,
        }
        return DataProto(batch.batch.to(here()), batch.non_tensor_batch, meta_info)

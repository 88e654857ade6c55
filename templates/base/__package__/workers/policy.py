# vextract:template - edit freely
"""The policy that is trained, and the reference that it may be held close to.

Both are a vendored actor around a model (see actor.py); what is here is what upstream's workers do around it.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf, open_dict

from ..data.images import seen_on
from ..hooks import LOSS, calling
from ..run.distributed import Ranks
from ..shims.device import computing_on, here
from ..switches import (
    DISTILLATION,
    DYNAMIC_BSZ,
    GIVEN_OBJECTS,
    HF,
    LOGITS_IN_PIECES,
    LORA,
    MFU,
    MULTIMODAL,
    OFFLOAD,
    PLACEMENT,
    QLORA,
    SHARDED_CHECKPOINTS,
    WATCH,
)
from ..training.flops import flops_metrics
from ..vendored.protocol import DataProto
from .actor import Actor
from .adapters import starting_point, wants_adapter
from .device_map import device_of
from .lora import add_adapter, without_adapter
from .models import check_positions, load_model, place_model
from .offload import rests, weights_at_rest
from .own_shares import shares_reader
from .policy_notes import note_dropout
from .quantized import quantized_reader
from .role_configs import actor_config
from .trained_model import TrainedModel

MEMORY = Path("/proc/meminfo")  # of Linux: how much of this machine's memory is in use


class Policy(TrainedModel):
    """The model that is trained.

    Args:
        config: the whole config.
        path: where its weights are: the configured model, or a checkpoint.
        total_steps: of the run, for the learning rate.
    """

    section_name, optim_name = "actor_rollout_ref.actor", "actor_rollout_ref.actor.optim"
    compares = True  # its updates compare probabilities with earlier ones, so that dropout matters

    def __init__(self, config: Any, tokenizer: Any, ranks: Ranks, path: str, total_steps: int) -> None:
        actor, model = config.actor_rollout_ref.actor, config.actor_rollout_ref.model
        self.config, self.tokenizer = config, tokenizer
        fsdp_config = actor.fsdp_config
        if MFU:
            self._world_size = ranks.world_size
        settings = resolve_sizes(actor, config.actor_rollout_ref.rollout.n, ranks.world_size)
        settings["use_remove_padding"] = model.use_remove_padding
        with computing_on(device_of(config, "policy") if PLACEMENT else here()):
            module = place_model(self.module_at(path, ranks), fsdp_config, ranks)
            super().__init__(module, actor.optim, fsdp_config, tokenizer, ranks, total_steps)
            self.actor = Actor(actor_config(config, settings), self.module, self.optimizer)
            if LOGITS_IN_PIECES:
                self.actor.limit_logits(config.local.max_logits_mb)
        self.actor.passes.share_between(ranks)

    def module_at(self, path: str, ranks: Ranks) -> Any:
        """Return a model with the weights at `path`."""
        if LORA:
            start = starting_point(path, self.config.actor_rollout_ref.model, ranks)
            path = start.model
        if GIVEN_OBJECTS or QLORA or SHARDED_CHECKPOINTS:
            module = self.load(path, ranks)
        else:
            fsdp_config = self.config.actor_rollout_ref.actor.fsdp_config
            module = load_causal_lm(self.config, path, fsdp_config, self.tokenizer, ranks)
        check_positions(module, path, self.config.data)
        if WATCH and self.compares and ranks.rank == 0:
            note_dropout(module.config)
        return add_adapter(module, self.config.actor_rollout_ref.model, start, ranks) if LORA else module

    if GIVEN_OBJECTS or QLORA or SHARDED_CHECKPOINTS:

        def load(self, path: str, ranks: Ranks) -> Any:
            """Load the model at `path`, as it is without an adapter."""
            fsdp_config = self.config.actor_rollout_ref.actor.fsdp_config
            if QLORA or SHARDED_CHECKPOINTS:
                reader = None
                if QLORA:
                    reader = quantized_reader(self.config)
                if SHARDED_CHECKPOINTS:
                    adapted = False
                    if LORA:
                        adapted = wants_adapter(self.config.actor_rollout_ref.model)
                    if reader is None and not adapted:
                        reader = shares_reader(path, fsdp_config, ranks)
                return load_causal_lm(self.config, path, fsdp_config, self.tokenizer, ranks, reader=reader)
            else:
                return load_causal_lm(self.config, path, fsdp_config, self.tokenizer, ranks)

    def compute_log_prob(
        self, batch: DataProto, *, entropy: bool = True, temperature: float | None = None
    ) -> DataProto:
        """Compute `old_log_probs` and, if asked for, `entropys` of each response token, (bs, response_length).

        Args:
            batch: prompts with responses.
            entropy: whether to compute it.
            temperature: None: that of the rollout.
        """
        rollout = self.config.actor_rollout_ref.rollout
        with self.at_work():
            prepared = for_log_probs(batch, rollout, rollout.temperature if temperature is None else temperature)
            outputs = self.actor.outputs_for(prepared, calculate_entropy=entropy)
        outputs["old_log_probs"] = outputs.pop("log_probs")
        return DataProto.from_dict({name: value.cpu() for name, value in outputs.items()})

    def update(self, batch: DataProto) -> dict[str, Any]:
        """Train on a batch: all its mini-batches, ppo_epochs times.

        Args:
            batch: the global batch, the same on every process, with `advantages`, `response_mask`
                (bs, response_length), `old_log_probs` unless this is its only update, and, if actor.use_kl_loss,
                `ref_log_prob`.

        Returns:
            Metrics named actor/* and perf/*; those of mini- and micro-batches are lists.
        """
        section, rollout = self.config.actor_rollout_ref.actor, self.config.actor_rollout_ref.rollout
        part = self.actor.passes.part_of(self.with_old_log_probs(batch))
        with calling(LOSS, section.policy_loss.loss_mode), self.at_work():
            prepared = on_device(part, temperature=rollout.temperature)
            if MFU:
                start = time.perf_counter()
            metrics: dict[str, Any] = self.actor.update_policy(prepared)
            if MFU:
                seconds, epochs = time.perf_counter() - start, section.ppo_epochs
                metrics.update(flops_metrics("actor", self.module, batch, seconds, epochs, self._world_size))
            self.is_usable = self.has_usable_weights()
        if self.device.type == "cuda":
            metrics.update(self.memory_metrics())
        if MEMORY.is_file():
            kib = {line.split()[0]: int(line.split()[1]) for line in MEMORY.read_text().splitlines()}
            metrics["perf/cpu_memory_used_gb"] = (kib["MemTotal:"] - kib["MemAvailable:"]) / 1024**2
        metrics["actor/lr"] = self.step_learning_rate()
        return metrics

    def memory_metrics(self) -> dict[str, float]:
        """Return the most that the GPU held for this process so far, in GiB, without what an engine has given back."""
        allocated, reserved = torch.cuda.max_memory_allocated(self.device), torch.cuda.max_memory_reserved(self.device)
        held = {"perf/max_memory_allocated_gb": allocated, "perf/max_memory_reserved_gb": reserved}
        if not HF:
            held = {name: value - self.given_back() for name, value in held.items()}
        return {name: value / 1024**3 for name, value in held.items()}

    def with_old_log_probs(self, batch: DataProto) -> DataProto:
        """Return the batch with `old_log_probs`: NaN if they were not computed, which the update then replaces."""
        self.actor.takes_own_log_probs = "old_log_probs" not in batch.batch.keys()
        if self.actor.takes_own_log_probs:  # it asks for them and must not use them: NaN would reveal it
            batch = DataProto(batch.batch.copy(), batch.non_tensor_batch, batch.meta_info)
            batch.batch["old_log_probs"] = torch.full_like(batch.batch["advantages"], float("nan"))
        return batch


class Reference:
    """The model that the policy started from. It is not trained.

    With LoRA it is the policy without its adapter, and needs no memory of its own.

    Attributes:
        actor: what computes with it.

    Args:
        config: the whole config.
        policy: the model that is trained; None: there is none. Only LoRA uses it.
    """

    actor_class = Actor

    def __init__(self, config: Any, tokenizer: Any, ranks: Ranks, policy: Policy | None = None) -> None:
        ref = config.actor_rollout_ref.ref
        self.config = config
        node = OmegaConf.create(OmegaConf.to_container(ref, resolve=True))
        with open_dict(node):
            node.use_remove_padding = config.actor_rollout_ref.model.use_remove_padding
        own_path = (ref.model or {}).get("path")
        if LORA:
            self.policy = policy if policy is not None and policy.lora is not None and own_path is None else None
            if self.policy is not None:
                self.actor = Actor(node, self.policy.module)
                if LOGITS_IN_PIECES:
                    self.actor.limit_logits(config.local.max_logits_mb)
                return
        path = own_path or config.actor_rollout_ref.model.path
        module = load_causal_lm(config, path, ref.fsdp_config, tokenizer, ranks)
        check_positions(module.requires_grad_(False), path, config.data)
        self.device = device_of(config, "reference") if PLACEMENT else here()
        with computing_on(self.device):
            module = place_model(module, ref.fsdp_config, ranks)
            self.actor = self.actor_class(node, module)
            if LOGITS_IN_PIECES:
                self.actor.limit_logits(config.local.max_logits_mb)
            if OFFLOAD:
                rest = "cpu" if rests(ref.fsdp_config, ranks.world_size)[0] else None
                self.weights = weights_at_rest(module, self.device, rest)

    if DISTILLATION or LORA or OFFLOAD:

        @contextmanager
        def at_work(self) -> Iterator[None]:
            """Have the weights on the device that they compute on."""
            if LORA and self.policy is not None:
                with self.policy.at_work(), without_adapter(self.policy.module):
                    yield
                return
            with computing_on(self.device):
                if OFFLOAD:
                    with self.weights:
                        yield
                else:
                    yield

    def compute_log_prob(self, batch: DataProto) -> DataProto:
        """Compute the log-probability of each response token: `ref_log_prob`, (bs, response_length)."""
        section = self.config.actor_rollout_ref
        with self.at_work() if DISTILLATION or LORA or OFFLOAD else computing_on(self.device):
            prepared = for_log_probs(batch, section.ref, section.rollout.temperature)
            outputs = self.actor.outputs_for(prepared, calculate_entropy=False)
        return DataProto.from_dict({"ref_log_prob": outputs["log_probs"].cpu()})


def resolve_sizes(section: Any, rollout_n: int, world_size: int) -> dict[str, Any]:
    """Return the settings of a model that is trained, resolved, with its sizes counted in responses.

    Args:
        section: its section of the config, whose mini-batches are counted in prompts.
        rollout_n: responses per prompt.
        world_size: processes, which may compute a pass together (see SharedPasses).
    """
    mini = section.ppo_mini_batch_size * rollout_n
    micro = min(section.ppo_micro_batch_size_per_gpu, mini)
    settings: Any = OmegaConf.to_container(section, resolve=True)
    settings.update(ppo_mini_batch_size=mini, ppo_micro_batch_size_per_gpu=micro)
    if DYNAMIC_BSZ:
        settings["ppo_max_token_len_per_gpu"] *= world_size
    return dict(settings)


def load_causal_lm(config: Any, path: str, fsdp_config: Any, tokenizer: Any, ranks: Ranks, **settings: Any) -> Any:
    """Load a causal language model with the settings of the policy; `settings`: see `load_model`."""
    from transformers import AutoModelForCausalLM

    model = config.actor_rollout_ref.model
    return load_model(path, model, fsdp_config, tokenizer, AutoModelForCausalLM, ranks, **settings)


def for_log_probs(batch: DataProto, section: Any, temperature: float) -> DataProto:
    """Return the batch on the device in use, with what the vendored actor reads where it computes log-probabilities."""
    return on_device(
        batch,
        micro_batch_size=section.log_prob_micro_batch_size_per_gpu,
        max_token_len=section.log_prob_max_token_len_per_gpu,
        use_dynamic_bsz=section.log_prob_use_dynamic_bsz,
        temperature=temperature,
    )


def on_device(batch: DataProto, **meta_info: Any) -> DataProto:
    """Return the batch on the device in use, with more `meta_info`."""
    if MULTIMODAL:
        batch = DataProto(batch.batch, seen_on(batch.non_tensor_batch, here()), batch.meta_info)
    return DataProto(batch.batch.to(here()), batch.non_tensor_batch, {**batch.meta_info, **meta_info})

"""The lines of a plan: models, their gradients and optimizers, passes, responses."""

from dataclasses import dataclass
from typing import Any

import torch
from omegaconf import OmegaConf

from ..settings import reward_keys
from ..shims.device import to_dtype
from .measured import optimizer_factor, program_size
from .plan import CUDA_CONTEXT, CUDA_IDLE_SHARE, NCCL_BUFFERS, PASSING, PHASES, MemoryPlan
from .rollout import add_rollout
from .shapes import CannotTrace, Entropy, ModelShape, model_config_of
from .sizes import (
    computes_old_log_probs,
    device_of,
    responses,
    rows_of_pass,
    said_by_teachers,
    teachers,
    update_passes,
    wants_critic,
    wants_process_rewards,
    wants_reference,
)
from .tracing import Usage

try:
    from ..workers.adapters import Start, wants_adapter
except ImportError:  # without the feature a model trains all its weights
    Start: Any = None  # type: ignore[no-redef]

    def wants_adapter(model: Any) -> bool:
        """Tell that no adapter is trained."""
        return False


try:
    from ..workers.offload import SHARE, rests
except ImportError:  # without the feature nothing rests, and an optimizer takes its step for all weights at once
    SHARE = 2**63

    def rests(fsdp_config: Any, world_size: int) -> tuple[bool, bool]:
        """Tell that neither weights nor an optimizer's state wait in CPU memory."""
        return False, False


MODEL = "actor_rollout_ref.model.path"


@dataclass(frozen=True)
class Role:
    """A model of a run.

    Attributes:
        name: for the lines of the plan.
        shape: of the model.
        section: what is said of its passes: actor, ref or critic.
        fsdp_config: how it is shared out, and where it rests.
        works: the phases in which it computes.
        updates: the phase in which it is trained; None: it is not.
    """

    name: str
    shape: ModelShape
    section: Any
    fsdp_config: Any
    works: tuple[str, ...]
    updates: str | None = None


class Planner:
    """Makes plans, of which it keeps what models look like.

    Args:
        processes: how many there are.
        capacity: bytes that each has on its device.
    """

    def __init__(self, processes: int, capacity: int) -> None:
        self.processes = processes
        self.capacity = capacity
        self._shapes: dict[str, ModelShape] = {}
        self._states: dict[str, float] = {}
        self._program = 0
        self._device = "cpu"

    def of(self, config: Any) -> MemoryPlan:
        """Return the plan of a config whose device is filled in."""
        device = self._device = config.local.device
        reference, critic = wants_reference(config), wants_critic(config)
        asked = {"ref": reference, "values": critic, "update_critic": critic, "teacher": bool(teachers(config))}
        asked["reward_model"] = wants_process_rewards(config)
        asked["old_log_prob"] = computes_old_log_probs(config)
        phases = tuple(phase for phase in PHASES if asked.get(phase, True))
        plan = MemoryPlan(self.processes, device, self.capacity, phases)
        self._add_program(plan, wants_adapter(config.actor_rollout_ref.model))
        policy = self._policy(config)
        roles = [policy]
        if critic:
            roles.append(self._critic(config))
        if asked["reward_model"]:
            roles.append(self._implicit_reward(config))
        if reference and self._own_reference(config):
            roles.append(self._reference(config))
        found = [self._frozen(config, "teacher", key, path) for key, path in teachers(config).items()]
        roles += sorted(found, key=lambda role: role.shape.weights)
        for role in roles:
            self._add_role(plan, role, config)
        self._add_judge(plan, config)
        self._add_batch(plan, config)
        self._add_passes(plan, config, roles)
        add_rollout(plan, config, policy.shape)
        if device != "cpu":
            for phase in phases:
                gradients = [name for name in plan.lines if name.endswith(": gradients")]
                idle = sum(plan.lines.get(name, {}).get(phase, 0) for name in (*PASSING, *gradients))
                plan.add("idle in the allocator", CUDA_IDLE_SHARE * idle, [phase])
        elif config.local.get("keep_freed_memory", True):
            plan.notes.append("memory of freed tensors, which is kept: up to as much again (local.keep_freed_memory)")
        return plan

    def share(self, fsdp_config: Any) -> int:
        """Return how many processes share one copy of a model."""
        size = int(fsdp_config.fsdp_size)
        return size if 0 < size < self.processes else self.processes

    def _shape(
        self, key: str, path: str, model: Any, fsdp_config: Any, auto_class: Any, **arguments: Any
    ) -> ModelShape:
        settings = arguments.pop("settings", {})
        texts = [path, str(self.processes > 1), str(settings), str(arguments)]
        texts += [str(OmegaConf.to_container(node, resolve=True)) for node in (model, fsdp_config)]
        known = " ".join((key, *texts))
        if known not in self._shapes:
            found = model_config_of(path, model, key, **settings)
            shared = self.processes > 1
            self._shapes[known] = ModelShape(
                found, model, fsdp_config, auto_class, shared=shared, device=self._device, **arguments
            )
        return self._shapes[known]

    def _policy(self, config: Any) -> Role:
        from transformers import AutoModelForCausalLM

        section, model = config.actor_rollout_ref, config.actor_rollout_ref.model
        fsdp_config = section.actor.fsdp_config
        adapter = Start(model.path, model.lora_adapter_path) if wants_adapter(model) else None
        quantization = config.local.quantization if config.local.quantization.load_in_4bit else None
        shape = self._shape(
            MODEL,
            model.path,
            model,
            fsdp_config,
            AutoModelForCausalLM,
            start=adapter,
            quantization=quantization,
            max_logits_mb=config.local.get("max_logits_mb"),
        )
        works: tuple[str, ...] = ("old_log_prob", "update_actor")
        if not self._own_reference(config):
            works = (*works, "ref")
        elsewhere = device_of(config, "rollout") not in (None, device_of(config, "policy"))
        if section.rollout.name == "hf" and self.processes == 1 and not elsewhere:
            works = (*works, "gen")  # it writes the responses itself
        return Role("policy", shape, section.actor, fsdp_config, works, "update_actor")

    def _implicit_reward(self, config: Any) -> Role:
        """Return the role of PRIME's model, which is read, shared out and trained as the policy is."""
        from transformers import AutoModelForCausalLM

        section, model = config.local.prime, config.actor_rollout_ref.model
        path = section.path or model.path
        adapter = Start(path, model.lora_adapter_path) if wants_adapter(model) else None
        mb = config.local.get("max_logits_mb")
        shape = self._shape(
            "local.prime.path", path, model, section.fsdp_config, AutoModelForCausalLM, start=adapter, max_logits_mb=mb
        )
        return Role("implicit reward", shape, section, section.fsdp_config, ("reward_model",), "reward_model")

    def _reference(self, config: Any) -> Role:
        ref, model = config.actor_rollout_ref.ref, config.actor_rollout_ref.model
        path = (ref.model or {}).get("path") or model.path
        key = "actor_rollout_ref.ref.model.path" if (ref.model or {}).get("path") else MODEL
        return self._frozen(config, "reference", key, path)

    def _frozen(self, config: Any, name: str, key: str, path: str) -> Role:
        """Return the role of a model that is not trained: the reference, or a teacher, which is placed as that is."""
        from transformers import AutoModelForCausalLM

        ref, model, mb = config.actor_rollout_ref.ref, config.actor_rollout_ref.model, config.local.get("max_logits_mb")
        shape = self._shape(key, path, model, ref.fsdp_config, AutoModelForCausalLM, max_logits_mb=mb)
        return Role(name, shape, ref, ref.fsdp_config, ("ref" if name == "reference" else name,))

    def _critic(self, config: Any) -> Role:
        from transformers import AutoModelForTokenClassification

        section = config.critic
        path = section.model.path or config.actor_rollout_ref.model.path
        fsdp_config, settings = section.model.fsdp_config, {"num_labels": 1}
        auto_class = AutoModelForTokenClassification
        shape = self._shape("critic.model.path", path, section.model, fsdp_config, auto_class, settings=settings)
        return Role("critic", shape, section, fsdp_config, ("values", "update_critic"), "update_critic")

    def _own_reference(self, config: Any) -> bool:
        """Tell whether the reference is a model of its own, and not the policy without its adapter."""
        ref, model = config.actor_rollout_ref.ref, config.actor_rollout_ref.model
        return not wants_adapter(model) or bool((ref.model or {}).get("path"))

    def _add_program(self, plan: MemoryPlan, adapter: bool) -> None:
        if plan.device != "cpu":
            plan.add("CUDA itself", CUDA_CONTEXT + (NCCL_BUFFERS if self.processes > 1 else 0))
            return
        self._program = self._program or program_size(adapter)
        plan.add("the program itself", self._program)

    def _add_role(self, plan: MemoryPlan, role: Role, config: Any) -> None:
        shape, share = role.shape, self.share(role.fsdp_config)
        away = plan.device != "cpu"
        weights_rest, state_rests = (away and rests_there for rests_there in rests(role.fsdp_config, self.processes))
        by_fsdp = away and bool(role.fsdp_config.offload_policy) and self.processes > 1
        elsewhere = role.name in ("reference", "teacher") and device_of(config, "reference") == "cpu" and away
        others = [phase for phase in plan.phases if phase not in role.works]
        weights, name = shape.weights / share, f"{role.name}: weights"
        if by_fsdp or elsewhere:
            plan.add(name, weights, rests=True)
        else:
            plan.add(name, weights, role.works if weights_rest else None)
            plan.add(name, weights if weights_rest else 0, others, rests=True)
        if role.updates is None:
            return
        state = self._state_factor(role) * shape.trained / share
        name = f"{role.name}: optimizer"
        plan.add(name, state, rests=by_fsdp or state_rests)

    def _state_factor(self, role: Role) -> float:
        """Return how many times the bytes of weights the optimizer's state of them has."""
        node: Any = OmegaConf.to_container(role.section.optim, resolve=True)
        key = f"{node} {role.shape.kept}"
        if key not in self._states:
            self._states[key] = optimizer_factor(node, role.shape.kept)
        return self._states[key]

    def _add_judge(self, plan: MemoryPlan, config: Any) -> None:
        if not hasattr(reward_keys, "JUDGE"):  # a project without the feature
            return
        path = OmegaConf.select(config, reward_keys.JUDGE_PATH)
        if not path or not OmegaConf.select(config, reward_keys.JUDGE):
            return
        from transformers import AutoModelForSequenceClassification

        found = model_config_of(path, config.actor_rollout_ref.model, reward_keys.JUDGE_PATH, num_labels=1)
        with torch.device("meta"):
            module = AutoModelForSequenceClassification.from_config(found)
        size = sum(weight.numel() for weight in module.parameters()) * to_dtype(config.local.dtype).itemsize
        rests_there = plan.device != "cpu" and OmegaConf.select(config, reward_keys.JUDGE_SETTINGS["param_offload"])
        plan.add("reward model: weights", size, rests=bool(rests_there))
        plan.notes.append("the passes of the reward model")

    def _add_batch(self, plan: MemoryPlan, config: Any) -> None:
        """Add the columns of a batch: all of it on the CPU of each process, and the part that is computed with."""
        data = config.data
        rows, whole = responses(config), data.max_prompt_length + data.max_response_length
        of_row = 8 * (3 * whole + data.max_prompt_length + 2 * data.max_response_length) + 24 * data.max_response_length
        of_row += whole * said_by_teachers(config)
        if plan.device == "cpu":
            plan.add("batch", rows * of_row)
        else:
            plan.add("batch", -(-rows // self.processes) * of_row)
            plan.add("batch", rows * of_row, rests=True)

    def _add_passes(self, plan: MemoryPlan, config: Any, roles: list[Role]) -> None:
        section, policy = config.actor_rollout_ref, roles[0]
        critic = next((role for role in roles if role.name == "critic"), None)
        length = config.data.max_prompt_length + config.data.max_response_length
        own = -(-responses(config) // self.processes)
        if "old_log_prob" in plan.phases:
            rows = rows_of_pass(section.rollout, "log_prob_", length, own)
            self._add_forward(plan, policy, "old_log_prob", rows, length, entropy=True)
        here = device_of(config, "reference") != "cpu" or plan.device == "cpu"
        frozen = {phase: role for role in roles for phase in role.works if phase in ("ref", "teacher")}
        for phase, role in frozen.items() if here else ():
            rows = rows_of_pass(section.ref, "log_prob_", length, own)
            if phase in plan.phases:
                self._add_forward(plan, role, phase, rows, length, entropy=False)
        if critic is not None:
            rows = rows_of_pass(critic.section, "forward_", length, own)
            self._add_forward(plan, critic, "values", rows, length, entropy=False)
            self._add_update(plan, config, critic, length, entropy=Entropy.NONE)
        for role in roles:
            if role.updates == "reward_model":
                self._add_update(plan, config, role, length, entropy=Entropy.NONE)
        reported = Entropy.NONE if "old_log_prob" in plan.phases else Entropy.REPORTED
        self._add_update(
            plan, config, policy, length, entropy=Entropy.LEARNED if section.actor.entropy_coeff != 0 else reported
        )

    def _add_forward(self, plan: MemoryPlan, role: Role, phase: str, rows: int, length: int, *, entropy: bool) -> None:
        layer, matrix, rest = role.shape.units
        if self.processes > 1:
            plan.add("gathered", rest + max(rest, 2 * layer, layer + matrix), [phase])
        try:
            _add_usage(plan, role.shape.forward(rows, length, entropy=entropy), phase)
        except CannotTrace as error:
            _note(plan, role, error)

    def _add_update(self, plan: MemoryPlan, config: Any, role: Role, length: int, *, entropy: Entropy) -> None:
        shape, share, phase = role.shape, self.share(role.fsdp_config), role.updates or ""
        rows, passes = update_passes(config, role.section, length, self.processes)
        gradients = shape.trained / share
        by_fsdp = plan.device != "cpu" and bool(role.fsdp_config.offload_policy) and self.processes > 1
        held = 0.0 if by_fsdp else gradients
        peak = Usage()
        try:
            part = 0.0 if by_fsdp else 1 / share
            peak = shape.update(rows, length, passes=passes, entropy=entropy, share=part)
        except CannotTrace as error:
            _note(plan, role, error)
            peak = Usage(gradients=int(held))
        # Three moments: in a backward pass; at its end; and the optimizer's step, when nothing of a pass is left.
        inside, end = self._gathered(shape)
        step = 2 * shape.largest / share
        if plan.device != "cpu":  # it is taken for a share of the weights at a time, whose state may come for it
            taken = min(gradients, max(SHARE, shape.largest / share))
            comes = rests(role.fsdp_config, self.processes)[1]
            step = taken * (1 + (self._state_factor(role) if comes else 0))
        moments = {"backward": peak.total + inside, "end": held + end, "step": held + step}
        moment = max(moments, key=lambda name: moments[name])
        if moment == "backward":
            _add_usage(plan, peak, phase)
            plan.add("gathered", inside, [phase])
        plan.add(f"{role.name}: gradients", peak.gradients if moment == "backward" else held, [phase])
        plan.add("gathered", end if moment == "end" else 0, [phase])
        plan.add("optimizer step", step if moment == "step" else 0, [phase])
        plan.add(f"{role.name}: gradients", gradients if by_fsdp else 0, [phase], rests=True)

    def _gathered(self, shape: ModelShape) -> tuple[float, float]:
        """Return what FSDP2 has gathered of weights and gradients: in the middle of a backward pass, and at its end."""
        if self.processes == 1:
            return 0.0, 0.0
        layer, matrix, rest = shape.units
        learns = shape.trained / max(1, shape.weights)  # the part that has gradients
        sums = learns * (1 + 4 / shape.dtype.itemsize)  # whole gradients, and in float32 what is sent of them
        inside = rest + max(layer * (2 + sums), matrix + layer)
        return inside, (rest + max(layer, matrix)) * (1 + sums)


def _add_usage(plan: MemoryPlan, usage: Usage, phase: str) -> None:
    plan.add("activations", usage.activations, [phase])
    plan.add("logits", usage.logits, [phase])
    plan.add("copies for autocast", usage.copies, [phase])


def _note(plan: MemoryPlan, role: Role, error: Exception) -> None:
    text = f"activations of the {role.name}, whose code cannot be followed without numbers ({error})"
    if text not in plan.notes:
        plan.notes.append(text)

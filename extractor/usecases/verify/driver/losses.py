"""What cases do with losses and distillation over batches without padding, and the configurations of losses."""

from types import SimpleNamespace
from typing import Any

import torch

from . import inputs
from .calling import capture_outcome
from .inputs import BATCH, CORE, PROMPT, SETTINGS, build_actor_config, find_estimators, make_step
from .sides import Side

ENGINE_CONFIG = "verl.workers.config.engine:FSDPEngineConfig"
LOSSES = "verl.workers.utils.losses"
PADDING = "verl.workers.utils.padding"
TENSORS = "verl.utils.tensordict_utils"
DISTILLATION = "verl.trainer.distillation.losses"
VOCABULARY, TOPK = 30, 5
# What the engine notes of the batch that a pass is a part of.
NOTED = {"dp_size": 2, "batch_num_tokens": 61, "global_batch_size": 17}


def make_losing_config(
    side: Side, form: str = "mapping", *, known: dict[str, Any] | None = None, correction: Any = None, **settings: Any
) -> Any:
    """Return the actor's settings as a policy loss takes them.

    Args:
        form: "mapping" or "dataclass".
        known: What a process knows of the batch that its rows are a part of, in releases that ask for it.
        correction: How rollouts are corrected; only a mapping has it.
        settings: Others of the actor's; "losing" are the loss's.
    """
    if form == "mapping":
        settings["losing"] = {
            "rollout_correction": {**SETTINGS["rollout_correction"], **(correction or {})},
            **settings.get("losing", {}),
        }
        settings["global_batch_info"] = {}
    made = build_actor_config(side, form, **settings)
    if hasattr(made, "global_batch_info"):
        made.global_batch_info.update(known or {})
    return made


def make_unpadded(
    side: Side,
    *,
    by_topk: bool | None = None,
    step: dict[str, Any] | None = None,
    prompts: bool = True,
    **settings: Any,
) -> Any:
    """Return a step's batch without padding, with settings that are not None.

    Args:
        step: How the batch is made.
        prompts: Each row has a prompt.
        by_topk: It has a teacher's log-probabilities, of the most likely tokens or of the next one.
    """
    data = make_step(side, **(step or {}))
    data.non_tensor_batch.clear()
    temperature = settings.pop("temperature", 0.9)
    data.meta_info = {} if isinstance(temperature, list) else {"temperature": temperature}
    if isinstance(temperature, list):
        data.batch["temperature"] = torch.tensor(temperature)
    if by_topk is not None:
        ids = data.batch["input_ids"]
        said = inputs.normal(BATCH, ids.shape[1], VOCABULARY, seed=802).log_softmax(-1)
        chosen = said.topk(TOPK, dim=-1).indices if by_topk else ids.roll(-1, 1).unsqueeze(-1)
        data.batch["teacher_ids"], data.batch["teacher_logprobs"] = chosen, said.gather(-1, chosen)
    batch = side.get(f"{PADDING}:left_right_2_no_padding")(data.to_tensordict())
    settings = {
        "use_dynamic_bsz": False,
        "micro_batch_size_per_gpu": 4,
        "max_token_len_per_gpu": 30,
        "use_remove_padding": False,
        "global_batch_size": BATCH,
        **settings,
    }
    known = {key: value for key, value in settings.items() if value is not None}
    side.get(f"{TENSORS}:assign_non_tensor")(batch, **known)
    if not prompts:
        batch["attention_mask"][0, :PROMPT] = 0
    return batch


def make_nested_mask(side: Side) -> Any:
    """Return the response mask, without padding."""
    rows = [row[row.bool()] for row in make_unpadded(side)["response_mask"]]
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def build_losses_config(side: Side, **changes: Any) -> Any:
    """Return the actor's section as upstream's dataclass."""
    return build_actor_config(side, fsdp_config=side.get(ENGINE_CONFIG)(strategy="fsdp2"), **changes)


def lose_unpadded(side: Side, known: dict[str, Any] | None = None, **changes: Any) -> Any:
    """Return the actor's loss and its gradients, by known sizes of the batch."""
    config, batch = build_losses_config(side, **changes), make_unpadded(side)
    nothing = {"dp_size": 1, "batch_num_tokens": None, "global_batch_size": None}
    side.get(f"{TENSORS}:assign_non_tensor")(batch, **{**nothing, **(known or {})})
    offsets = batch["input_ids"].offsets()
    leaves = [(-inputs.normal(int(offsets[-1]), seed=seed).abs()).requires_grad_() for seed in (711, 712)]
    nested = [torch.nested.nested_tensor_from_jagged(leaf, offsets) for leaf in leaves]
    output = dict(zip(("log_probs", "entropy"), nested, strict=True))
    loss, metrics = side.get(f"{LOSSES}:ppo_loss")(config, model_output=output, data=batch)
    loss.backward()
    return loss, metrics, [leaf.grad for leaf in leaves]


def distill(side: Side, name: str, *, later: dict[str, Any] | None = None, **changes: Any) -> Any:
    """Return loss, metrics and gradient, or the exception raised."""
    losses = side.module(DISTILLATION)
    kind = side.get("verl.workers.config.distillation:DistillationLossConfig")
    settings: Any = capture_outcome(kind, loss_mode=name, topk=TOPK, **changes)
    if isinstance(settings, Exception):
        return settings
    # By pieces of the logits; releases that do not know them learn it at once.
    for key, value in (later or {}).items():
        object.__setattr__(settings, key, value)
    # "fsdp", and the sizes that are noted before: what named fixes give the project's side.
    config, distillation = build_losses_config(side, strategy="fsdp"), SimpleNamespace(distillation_loss=settings)
    config.global_batch_info.update({**NOTED, "loss_scale_factor": config.loss_scale_factor})
    batch = make_unpadded(side, by_topk=settings.loss_settings.use_topk, **NOTED)
    ids, offsets = batch["input_ids"].values(), batch["input_ids"].offsets()
    logits = inputs.normal(len(ids), VOCABULARY, seed=801).requires_grad_()
    following = logits.log_softmax(-1).gather(-1, ids.roll(-1).unsqueeze(-1)).squeeze(-1)
    output = {"log_probs": torch.nested.nested_tensor_from_jagged(following, offsets)}
    if settings.loss_settings.use_topk:
        learned = losses.distillation_ppo_loss(config, distillation, None, batch, student_logits=logits.unsqueeze(0))
        output |= {key: torch.nested.nested_tensor_from_jagged(value[0], offsets) for key, value in learned.items()}
    loss, metrics = losses.distillation_ppo_loss(config, distillation, output, batch)
    loss.backward()
    return loss, metrics, logits.grad


MADE = {
    "estimator": lambda side, name: find_estimators(side)[name],
    "ids": lambda side, column="input_ids": make_unpadded(side)[column],
    "padded": lambda side: make_step(side).to_tensordict(),
    "policy_loss": lambda side, name: side.get(f"{CORE}:get_policy_loss_fn")(name),
    "flat_ids": lambda side, count=None: make_unpadded(side)["input_ids"].values()[:count],
}

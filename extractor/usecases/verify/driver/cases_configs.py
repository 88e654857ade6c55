"""Cases of config classes and the optimizers that they describe."""

import dataclasses
import warnings
from types import SimpleNamespace
from typing import Any

import torch

from . import inputs
from .cases import Call, Cases, family, kind_of, outcome

WORKERS = "verl.workers.config"
# What is changed in the actor's section; "left out" is not given to the class.
ACTORS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no batch size": {"ppo_micro_batch_size_per_gpu": None},
    "dynamic": {"use_dynamic_bsz": True},
    "bad aggregation": {"loss_agg_mode": "none"},
    "bad strategy": {"strategy": "none"},
    "sequence parallel": {"ulysses_sequence_parallel_size": 2},
    "sequence parallel engine": {"fsdp_config": {"ulysses_sequence_parallel_size": 4}},
    "both": {"ppo_micro_batch_size": 2},
    "both, dynamic": {"ppo_micro_batch_size": 2, "use_dynamic_bsz": True},
    "uneven": {"ppo_micro_batch_size": 3, "ppo_micro_batch_size_per_gpu": None},
    "old key, sequence parallel": {
        "ppo_micro_batch_size": 4,
        "ppo_micro_batch_size_per_gpu": None,
        "ulysses_sequence_parallel_size": 2,
    },
    "nothing else": {
        **dict.fromkeys((*inputs.actor_settings(), "policy_loss"), "left out"),
        "strategy": "fsdp",
        "rollout_n": 2,
        "ppo_micro_batch_size_per_gpu": 1,
    },
    "old key": {"ppo_micro_batch_size": 8, "ppo_micro_batch_size_per_gpu": None},
}
VALIDATED = ((1, 8, True), (8, 2, True), (8, 4, True), (9, 4, True), (1, 4, False))


def fields_of(value: Any) -> dict[str, Any]:
    """Return a dataclass's fields, recursively, without `_target_`."""
    return {
        field.name: fields_of(item) if dataclasses.is_dataclass(item) else item
        for field in dataclasses.fields(value)
        for item in [getattr(value, field.name)]
        if field.name != "_target_"
    }


@family("config.actor", f"{WORKERS}.actor")
def actor(call: Call) -> Cases:
    """Try defaults, validation and access."""
    cls = call.get("FSDPActorConfig")

    def run(changes: dict[str, Any]) -> Any:
        settings = {**inputs.actor_settings(), "policy_loss": call.get("PolicyLossConfig")(), **changes}
        if isinstance(settings.get("fsdp_config"), dict):
            settings["fsdp_config"] = call.get(f"{WORKERS}.engine:FSDPEngineConfig")(**settings["fsdp_config"])
        made = outcome(cls, **{name: value for name, value in settings.items() if value != "left out"})
        if isinstance(made, Exception):
            return made
        checks = [outcome(made.validate, gpus, size, {"use_remove_padding": kept}) for gpus, size, kept in VALIDATED]
        return fields_of(made), checks, made.get("clip_ratio"), made.get("none", 3), made["clip_ratio"], len(made)

    for label, changes in ACTORS.items():
        yield label, call(run, changes)


@family("config.critic", f"{WORKERS}.critic")
def critic(call: Call) -> Cases:
    """Try defaults and validation."""
    cls = call.get("FSDPCriticConfig")
    # Where none is given, newer releases load one of their own from the model's directory.
    model = {"model_config": SimpleNamespace()} if "model_config" in cls.__dataclass_fields__ else {}

    def run(changes: dict[str, Any]) -> Any:
        made = outcome(cls, **model, **changes)
        return made if isinstance(made, Exception) else [outcome(made.validate, *size) for size in ((1, 8), (8, 0))]

    for label, changes in {
        "plain": {"ppo_micro_batch_size_per_gpu": 2},
        "none": {},
        "both": {"ppo_micro_batch_size_per_gpu": 2, "ppo_micro_batch_size": 2},
        "uneven": {"ppo_micro_batch_size": 3, "ppo_mini_batch_size": 4},
    }.items():
        yield label, call(run, changes)


@family("config.convert", "verl.utils.config")
def conversion(call: Call) -> Cases:
    """Convert from OmegaConf to dataclasses."""
    convert, node = call.get("omega_conf_to_dataclass"), inputs.config(lr=0.003, weight_decay=0.1, lr_warmup_steps=4)
    yield "optimizer", lambda: fields_of(convert(node, call.get(f"{WORKERS}.optimizer:FSDPOptimizerConfig")))
    yield "empty", lambda: [convert(None), convert({})]
    yield "object", call(convert, 3)
    yield "no target", kind_of(call(convert, node))
    yield "no dataclass", kind_of(call(convert, node, int))


@family("config.optimizer", f"{WORKERS}.optimizer")
def optimizers(call: Call) -> Cases:
    """Yield cases of building each optimizer and stepping with it."""
    cls = call.get("FSDPOptimizerConfig")

    def run(changes: dict[str, Any]) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = outcome(cls, lr=0.01, **changes)
        if isinstance(made, Exception):
            return made
        weight = torch.nn.Parameter(torch.arange(4.0))
        optimizer = call("build_optimizer", [weight], made)()
        if isinstance(optimizer, Exception):
            return type(optimizer).__name__
        for _ in range(2):
            optimizer.zero_grad()
            (weight**2).sum().backward()
            optimizer.step()
        return fields_of(made), type(optimizer).__name__, weight

    for label, changes in {
        "AdamW": {},
        "SGD": {"optimizer": "SGD"},
        "override": {"override_optimizer_config": {"eps": 1e-4}},
        "cosine": {"lr_scheduler_type": "cosine"},
        "old name": {"warmup_style": "cosine"},
        "unknown": {"optimizer": "None"},
        "unknown schedule": {"lr_scheduler_type": "none"},
        "old name of clipping": {"grad_clip": 0.25},
        "betas": {"betas": (0.5, 0.75), "weight_decay": 0.25},
        "another module": {"optimizer_impl": "torch.optim.none"},
        "bad old name": {"warmup_style": "none"},
    }.items():
        yield label, call(run, changes)


@family("config.engine", f"{WORKERS}.engine")
def engines(call: Call) -> Cases:
    """Try each strategy, and what may be changed later."""
    cls = call.get("FSDPEngineConfig")
    for strategy in ("fsdp", "fsdp2", "none"):
        yield strategy, call(lambda: fields_of(cls(strategy=strategy)))
    for mode in ("disabled", "R2", "R3", "none"):
        yield f"replay/{mode}", call(lambda: fields_of(call.get("EngineRouterReplayConfig")(mode=mode)))

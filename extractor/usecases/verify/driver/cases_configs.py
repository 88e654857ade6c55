"""Cases of config classes, and of the optimizers and schedules that they describe."""

import warnings
from types import SimpleNamespace
from typing import Any

import torch

from . import inputs
from .cases import CaseMaker, Cases, capture_outcome, family, make_type_case
from .inputs import SETTINGS

WORKERS = "verl.workers.config"
VALIDATED = ((1, 8, True), (8, 2, True), (8, 4, True), (9, 4, True), (1, 4, False))


@family("config.actor", f"{WORKERS}.actor")
def actor(call: CaseMaker) -> Cases:
    """Try defaults, validation and access."""
    cls = call.get("FSDPActorConfig")

    def run(only: dict[str, Any] | None = None, **changes: Any) -> Any:
        settings = only or {**inputs.actor_settings(), "policy_loss": call.get("PolicyLossConfig")(), **changes}
        if isinstance(settings.get("fsdp_config"), dict):
            settings["fsdp_config"] = call.get(f"{WORKERS}.engine:FSDPEngineConfig")(**settings["fsdp_config"])
        made = cls(**settings)
        checks = [
            capture_outcome(made.validate, gpus, size, {"use_remove_padding": kept}) for gpus, size, kept in VALIDATED
        ]
        return made, checks, made.get("clip_ratio"), made.get("none", 3), made["clip_ratio"], len(made)

    yield from call.each("", run, SETTINGS["actors"])


@family("config.critic", f"{WORKERS}.critic")
def critic(call: CaseMaker) -> Cases:
    """Try defaults and validation."""
    cls = call.get("FSDPCriticConfig")
    # Where none is given, newer releases load one of their own from the model's directory.
    model = {"model_config": SimpleNamespace()} if "model_config" in cls.__dataclass_fields__ else {}

    def run(**changes: Any) -> Any:
        made = cls(**model, **changes)
        return [capture_outcome(made.validate, *size) for size in ((1, 8), (8, 0))]

    yield from call.each("", run, SETTINGS["critics"])


@family("config.convert", "verl.utils.config")
def conversion(call: CaseMaker) -> Cases:
    """Convert from OmegaConf to dataclasses."""
    convert, node = call.get("omega_conf_to_dataclass"), inputs.config(lr=0.003, weight_decay=0.1, lr_warmup_steps=4)
    yield "optimizer", lambda: convert(node, call.get(f"{WORKERS}.optimizer:FSDPOptimizerConfig"))
    yield "empty", lambda: [convert(None), convert({})]
    yield "object", call(convert, 3)
    yield "no target", make_type_case(call(convert, node))
    yield "no dataclass", make_type_case(call(convert, node, int))


@family("config.optimizer", f"{WORKERS}.optimizer")
def optimizers(call: CaseMaker) -> Cases:
    """Yield cases of building each optimizer and stepping with it."""
    cls = call.get("FSDPOptimizerConfig")

    def run(**changes: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = cls(lr=0.01, **changes)
        weight = torch.nn.Parameter(torch.arange(4.0))
        optimizer = call("build_optimizer", [weight], made)()
        if isinstance(optimizer, Exception):
            return type(optimizer).__name__
        for _ in range(2):
            optimizer.zero_grad()
            (weight**2).sum().backward()
            optimizer.step()
        return made, type(optimizer).__name__, weight

    yield from call.each("", run, SETTINGS["optimizers"])


@family("torch_functional.schedules", "verl.utils.torch_functional")
def schedules(call: CaseMaker) -> Cases:
    """Compute learning rates over a run."""

    def rates(name: str, **settings: Any) -> Any:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
        schedule = call.get(f"get_{name}_schedule_with_warmup")(optimizer, **settings)
        found = [schedule.get_last_lr()]
        for _ in range(20):
            optimizer.step()
            schedule.step()
            found.append(schedule.get_last_lr())
        return found

    for name in ("constant", "cosine"):
        yield from call.each(f"{name}/", rates, SETTINGS[f"{name}_schedules"], name)

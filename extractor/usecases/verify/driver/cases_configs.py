# mypy: disable-error-code="misc, no-untyped-call"
"""Cases of config classes and the optimizers that they describe."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch

from . import inputs
from .cases import Thunk, family, outcome
from .sides import Side

WORKERS = "verl.workers.config"


@family("config.actor", f"{WORKERS}.actor")
def actor(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Try defaults, validation and access."""
    cls = side.get(f"{WORKERS}.actor:FSDPActorConfig")
    variants: dict[str, dict[str, Any]] = {
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
        "nothing else": dict.fromkeys(inputs.actor_settings(), "left out"),
        "old key": {"ppo_micro_batch_size": 8, "ppo_micro_batch_size_per_gpu": None},
    }
    for label, changes in variants.items():
        settings = {**inputs.actor_settings(**changes), "policy_loss": side.get(f"{WORKERS}.actor:PolicyLossConfig")()}
        if "fsdp_config" in settings:
            settings["fsdp_config"] = side.get(f"{WORKERS}.engine:FSDPEngineConfig")(**settings["fsdp_config"])
        if label == "nothing else":
            settings |= {
                "policy_loss": "left out",
                "strategy": "fsdp",
                "rollout_n": 2,
                "ppo_micro_batch_size_per_gpu": 1,
            }

        def run(settings: dict[str, Any] = settings) -> Any:
            made = outcome(cls, **{name: value for name, value in settings.items() if value != "left out"})
            if isinstance(made, Exception):
                return made
            checks = [
                outcome(made.validate, gpus, size, {"use_remove_padding": removed})
                for gpus, size, removed in ((1, 8, True), (8, 2, True), (8, 4, True), (9, 4, True), (1, 4, False))
            ]
            return _fields(made), checks, made.get("clip_ratio"), made.get("none", 3), made["clip_ratio"], len(made)

        yield label, run
    yield (
        "frozen",
        lambda: (
            type(
                outcome(setattr, cls(strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1), "clip_ratio", 1.0)
            ).__name__
        ),
    )
    yield "keys", lambda: list(cls(strategy="fsdp", rollout_n=1, ppo_micro_batch_size_per_gpu=1))


@family("config.critic", f"{WORKERS}.critic")
def critic(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Try defaults and validation."""
    cls = side.get(f"{WORKERS}.critic:FSDPCriticConfig")
    # Where none is given, newer releases load one of their own from the model's directory.
    model = {"model_config": SimpleNamespace()} if "model_config" in cls.__dataclass_fields__ else {}
    for label, changes in (
        ("plain", {"ppo_micro_batch_size_per_gpu": 2}),
        ("none", {}),
        ("both", {"ppo_micro_batch_size_per_gpu": 2, "ppo_micro_batch_size": 2}),
        ("uneven", {"ppo_micro_batch_size": 3, "ppo_mini_batch_size": 4}),
    ):

        def run(changes: dict[str, Any] = changes) -> Any:
            made = outcome(cls, **model, **changes)
            return made if isinstance(made, Exception) else [outcome(made.validate, *size) for size in ((1, 8), (8, 0))]

        yield label, run


@family("config.convert", "verl.utils.config")
def conversion(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Convert from OmegaConf to dataclasses."""
    convert = side.get("verl.utils.config:omega_conf_to_dataclass")
    node = inputs.config(lr=0.003, weight_decay=0.1, lr_warmup_steps=4)
    yield "optimizer", lambda: _fields(convert(node, side.get(f"{WORKERS}.optimizer:FSDPOptimizerConfig")))
    yield "empty", lambda: [convert(None), convert({})]
    yield "object", lambda: convert(3)
    yield "no target", lambda: type(outcome(convert, node)).__name__
    yield "no dataclass", lambda: type(outcome(convert, node, int)).__name__


@family("config.optimizer", f"{WORKERS}.optimizer")
def optimizers(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Yield the optimizers built from a configuration, and a step with each."""
    cls = side.get(f"{WORKERS}.optimizer:FSDPOptimizerConfig")
    for label, changes in (
        ("AdamW", {}),
        ("SGD", {"optimizer": "SGD"}),
        ("override", {"override_optimizer_config": {"eps": 1e-4}}),
        ("cosine", {"lr_scheduler_type": "cosine"}),
        ("old name", {"warmup_style": "cosine"}),
        ("unknown", {"optimizer": "None"}),
        ("unknown schedule", {"lr_scheduler_type": "none"}),
        ("old name of clipping", {"grad_clip": 0.25}),
        ("betas", {"betas": (0.5, 0.75), "weight_decay": 0.25}),
        ("another module", {"optimizer_impl": "torch.optim.none"}),
        ("bad old name", {"warmup_style": "none"}),
    ):

        def run(changes: dict[str, Any] = changes) -> Any:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = outcome(cls, lr=0.01, **changes)
            if isinstance(made, Exception):
                return made
            weight = torch.nn.Parameter(torch.arange(4.0))
            optimizer = outcome(side.get(f"{WORKERS}.optimizer:build_optimizer"), [weight], made)
            if isinstance(optimizer, Exception):
                return type(optimizer).__name__
            for _ in range(2):
                optimizer.zero_grad()
                (weight**2).sum().backward()
                optimizer.step()
            return _fields(made), type(optimizer).__name__, weight

        yield label, run


@family("config.engine", f"{WORKERS}.engine")
def engines(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Try each strategy, and what may be changed later."""
    cls = side.get(f"{WORKERS}.engine:FSDPEngineConfig")
    for strategy in ("fsdp", "fsdp2", "none"):
        yield strategy, lambda strategy=strategy: outcome(lambda: _fields(cls(strategy=strategy)))
    for mode in ("disabled", "R2", "R3", "none"):
        replay = f"{WORKERS}.engine:EngineRouterReplayConfig"
        yield f"replay/{mode}", lambda mode=mode, replay=replay: outcome(lambda: _fields(side.get(replay)(mode=mode)))


@family("config.profiler", "verl.utils.profiler.config")
def profiler(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Unite and intersect."""
    cls = side.get("verl.utils.profiler.config:ProfilerConfig")
    one, two = ({"tool": "t", "enable": True, "ranks": [0, 1]}, {"tool": "t", "all_ranks": True, "ranks": [1, 2]})
    said: dict[str, Any] = {field.name: True for field in dataclasses.fields(cls) if field.type in ("bool", bool)}
    said["ranks"] = [3]
    if "global_tool_config" in cls.__dataclass_fields__:
        said["global_tool_config"] = {"a": 1}
    for name, value in said.items():

        def combined(name: str = name, value: Any = value) -> Any:
            pair = (cls(tool="t", **{name: value}), cls(tool="t"))
            turns = (pair, pair[::-1], (pair[0], pair[0]))
            return [outcome(_combined, *turn, method) for turn in turns for method in ("union", "intersect")]

        yield f"only {name}", combined
    yield "union", lambda: _fields(cls(**one).union(cls(**two)))
    yield "intersect", lambda: _fields(cls(**one).intersect(cls(**two)))
    yield "bad", lambda: outcome(cls, ranks=3)


@family("base_config", "verl.base_config")
def base(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Try access by attribute, by key, and as a mapping."""
    cls = side.get("verl.base_config:BaseConfig")

    @dataclasses.dataclass
    class Settings(cls):  # type: ignore[valid-type]
        size: int = 3
        rate: float = 0.5

    yield "get", lambda: [Settings().get("size"), Settings().get("none"), Settings().get("none", 7)]
    yield "items", lambda: [Settings()["rate"], outcome(Settings().__getitem__, "none"), len(Settings())]
    yield "keys", lambda: [name for name in Settings() if name != "_target_"]
    yield "frozen", lambda: outcome(setattr, Settings(), "size", 4)


def _combined(one: Any, other: Any, method: str) -> dict[str, Any]:
    return _fields(getattr(one, method)(other))


def _fields(value: Any) -> dict[str, Any]:
    return {
        field.name: _fields(item) if dataclasses.is_dataclass(item) else item
        for field in dataclasses.fields(value)
        for item in [getattr(value, field.name)]
        if field.name != "_target_"
    }

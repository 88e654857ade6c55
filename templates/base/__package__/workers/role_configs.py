# vextract:template - edit freely
"""From the project's config to what the vendored engine and optimizer take in this release of verl."""

from collections.abc import Iterable
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf

from ..switches import ROLLOUT_CORRECTION
from ..training.rollout_correction import policy_loss_changes
from ..vendored.workers.config.actor import FSDPActorConfig, PolicyLossConfig
from ..vendored.workers.config.engine import FSDPEngineConfig
from ..vendored.workers.config.optimizer import FSDPOptimizerConfig
from ..vendored.workers.config.optimizer import build_optimizer as build_optimizer_from_config

# Whether the actor, on the only update of a batch, takes the log-probabilities that it computes as the old ones, too.
TAKES_OWN_LOG_PROBS = True
ENGINE_SETTINGS = (
    "ulysses_sequence_parallel_size",
    "entropy_from_logits_with_chunking",
    "entropy_checkpointing",
    "use_torch_compile",
)


def actor_config(config: Any, settings: dict[str, Any]) -> FSDPActorConfig:
    """Return what the vendored losses read.

    Args:
        config: the whole config.
        settings: the actor's, with its sizes counted in responses.
    """
    section = config.actor_rollout_ref.actor
    policy_loss = settings["policy_loss"]
    if ROLLOUT_CORRECTION:
        policy_loss = {**policy_loss, **policy_loss_changes(config)}
    changed = {
        "rollout_n": config.actor_rollout_ref.rollout.n,
        "optim": optimizer_config(section),
        "fsdp_config": engine_config(section),
        "policy_loss": PolicyLossConfig(**policy_loss),
    }
    kept = {name: value for name, value in settings.items() if name != "use_torch_compile"}
    return FSDPActorConfig(**{**kept, **changed})


def engine_config(section: Any) -> FSDPEngineConfig:
    """Return the vendored engine's config, from the section of a model (actor, ref or critic)."""
    if isinstance(section.fsdp_config, FSDPEngineConfig):
        return section.fsdp_config
    settings = {name: section[name] for name in ENGINE_SETTINGS if name in section}
    # Seen to for the whole process (`always_the_same`): the engine would seed all random numbers anew as well.
    fixed = {"strategy": "fsdp2", "full_determinism": False}
    return FSDPEngineConfig(**{**_node(section.fsdp_config), **settings, **fixed})


def optimizer_config(section: Any) -> FSDPOptimizerConfig | None:
    """Return the vendored optimizer's config, from the section of a model; None: it is not trained."""
    optim = section.get("optim")
    if optim is None or isinstance(optim, FSDPOptimizerConfig):
        return optim
    return FSDPOptimizerConfig(**{**_node(optim), "clip_grad": section.grad_clip})


def build_optimizer(parameters: Iterable[torch.nn.Parameter], optim: Any) -> torch.optim.Optimizer:
    """Return the optimizer that an `optim` section describes, as verl makes it."""
    return build_optimizer_from_config(parameters, FSDPOptimizerConfig(**_node(optim)))


def _node(section: DictConfig) -> dict[str, Any]:
    node: Any = OmegaConf.to_container(section, resolve=True)
    return dict(node)

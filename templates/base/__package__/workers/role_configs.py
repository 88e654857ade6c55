# vextract:template - edit freely; upgrades merge your edits
"""From the project's config to what the vendored actor and optimizer take in this release of verl."""

from typing import Any

from omegaconf import OmegaConf

from ..training.config.config import CheckpointConfig
from ..training.rollout_correction import policy_loss_changes
from .config.actor import FSDPActorConfig, PolicyLossConfig
from .config.optimizer import FSDPOptimizerConfig

# Whether the vendored actor, on the only update of a batch, takes the log-probabilities that it has just computed as
# the old ones.
TAKES_OWN_LOG_PROBS = True


def actor_config(config: Any, mini_batch_size: int, micro_batch_size: int) -> FSDPActorConfig:
    """The vendored actor's config.

    Args:
        config: the whole config.
        mini_batch_size: responses per optimizer step on this process.
        micro_batch_size: responses per forward and backward pass on this process.
    """
    node: Any = OmegaConf.to_container(config.actor_rollout_ref.actor, resolve=True)
    node.update(
        ppo_mini_batch_size=mini_batch_size,
        ppo_micro_batch_size_per_gpu=micro_batch_size,
        use_remove_padding=config.actor_rollout_ref.model.use_remove_padding,
        rollout_n=config.actor_rollout_ref.rollout.n,
        optim=FSDPOptimizerConfig(**node["optim"]),
        fsdp_config=OmegaConf.create(node["fsdp_config"]),  # which has `dtype` before upstream's class does
        policy_loss=PolicyLossConfig(**{**node["policy_loss"], **policy_loss_changes(config)}),
        checkpoint=CheckpointConfig(),
    )
    return FSDPActorConfig(**node)


def lr_schedule(optim: Any) -> str:
    """The course of the learning rate that an `optim` section names: constant or cosine."""
    return str(optim.get("warmup_style") or optim.lr_scheduler_type)  # upstream knows the older name as well

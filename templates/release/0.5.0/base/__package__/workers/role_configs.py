# vextract:template - edit freely; upgrades merge your edits
"""From the project's config to what the vendored actor and optimizer take in this release of verl."""

from typing import Any

from omegaconf import DictConfig, OmegaConf

# Whether the vendored actor, on the only update of a batch, takes the log-probabilities that it has just computed as
# the old ones.
TAKES_OWN_LOG_PROBS = False


def actor_config(config: Any, mini_batch_size: int, micro_batch_size: int) -> DictConfig:
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
    )
    return OmegaConf.create(node)


def lr_schedule(optim: Any) -> str:
    """The course of the learning rate that an `optim` section names: constant or cosine."""
    return str(optim.get("warmup_style") or optim.lr_scheduler_type)  # upstream knows the older name as well

# vextract:template - edit freely
"""The size of a pass, from how many passes an optimizer step has."""

import os
from collections.abc import Sequence
from typing import Any

from omegaconf import OmegaConf

from ..errors import ConfigError

STEPS = "local.gradient_accumulation_steps"


def settle_passes(config: Any, names: Sequence[str]) -> None:
    """Fill in `ppo_micro_batch_size_per_gpu` where `local.gradient_accumulation_steps` is given.

    Each process then computes so many passes for an optimizer step, whose responses they share equally.

    Args:
        config: the whole config.
        names: the settings that were made on the command line.

    Raises:
        ConfigError: the responses cannot be shared like this, or the size of a pass is given as well, and is another.
    """
    steps, processes = OmegaConf.select(config, STEPS), int(os.environ.get("WORLD_SIZE", "1"))
    for section in ("actor_rollout_ref.actor", "critic") if steps is not None else ():
        node, key = OmegaConf.select(config, section), f"{section}.ppo_micro_batch_size_per_gpu"
        if node is None:
            continue
        if node.use_dynamic_bsz:
            raise ConfigError(
                f"{STEPS} is {steps}, and with {section}.use_dynamic_bsz a pass has a number of tokens instead",
                f"leave {STEPS} out, or {section}.use_dynamic_bsz",
            )
        responses = node.ppo_mini_batch_size * config.actor_rollout_ref.rollout.n
        rows, rest = divmod(responses, steps * processes)
        if rest or not rows:
            raise ConfigError(
                f"{STEPS} is {steps}, and {responses} responses of an optimizer step ({section}.ppo_mini_batch_size "
                f"times actor_rollout_ref.rollout.n) cannot be cut into so many equal passes on {processes} processes",
                f"choose a divisor of {responses / processes:g}, or another mini-batch",
            )
        if key in names and OmegaConf.select(config, key) != rows:
            raise ConfigError(
                f"{key} is {OmegaConf.select(config, key)}, and with {STEPS}={steps} a pass has {rows} responses",
                f"leave one of the two out; {STEPS}=null counts by the size of a pass",
            )
        OmegaConf.update(config, key, rows)

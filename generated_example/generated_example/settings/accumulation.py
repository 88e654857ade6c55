# vextract:template base/__package__/settings/accumulation.py - edit freely
"""The size of a pass, for who counts how many passes make an optimizer step."""

import os

from omegaconf import DictConfig, OmegaConf

from ..errors import ConfigError
from .shipped_settings import PASS_SIZES

STEPS = "local.gradient_accumulation_steps"
SECTIONS = ("actor_rollout_ref.actor", "critic")


def settle_passes(config: DictConfig, names: list[str]) -> None:
    """Fill in `ppo_micro_batch_size_per_gpu` where `local.gradient_accumulation_steps` is given.

    Each process then computes so many passes for an optimizer step, whose responses they share equally.

    Args:
        config: the whole config.
        names: the settings that were made on the command line.

    Raises:
        ConfigError: the responses cannot be shared like this, or the size of a pass is given as well, and is another.
    """
    if OmegaConf.select(config, STEPS) is None:
        return
    for section in SECTIONS:
        if OmegaConf.select(config, section) is not None:
            _settle(config, section, names)


def _settle(config: DictConfig, section: str, names: list[str]) -> None:
    steps, processes = config.local.gradient_accumulation_steps, int(os.environ.get("WORLD_SIZE", "1"))
    node, key = OmegaConf.select(config, section), f"{section}.ppo_micro_batch_size_per_gpu"
    if node.use_dynamic_bsz:
        raise ConfigError(
            f"{STEPS} is {steps}, and with {section}.use_dynamic_bsz a pass has a number of tokens instead",
            f"leave {STEPS} out, or {section}.use_dynamic_bsz",
        )
    responses = node.ppo_mini_batch_size * config.actor_rollout_ref.rollout.n
    rows, rest = divmod(responses, steps * processes)
    if rest or not rows:
        of_each = f" on each of {processes} processes" if processes > 1 else ""
        raise ConfigError(
            f"{STEPS} is {steps}, and an optimizer step has {responses} responses "
            f"({section}.ppo_mini_batch_size times actor_rollout_ref.rollout.n): no equal passes{of_each}",
            _other_numbers(responses, processes),
        )
    given = OmegaConf.select(config, key)
    as_shipped = OmegaConf.is_interpolation(node, "ppo_micro_batch_size_per_gpu") or given in PASS_SIZES
    if given != rows and (key in names or not as_shipped):
        raise ConfigError(
            f"{key} is {given}, and with {STEPS}={steps} a pass has {rows} responses",
            f"leave one of the two out; {STEPS}=null counts by the size of a pass",
        )
    OmegaConf.update(config, key, rows)


def _other_numbers(responses: int, processes: int) -> str:
    if responses % processes:
        return f"{responses} responses cannot be shared by {processes} processes: choose another mini-batch"
    each = responses // processes
    return f"choose a divisor of {each}: " + ", ".join(str(n) for n in range(1, min(each, 64) + 1) if each % n == 0)

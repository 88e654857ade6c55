# vextract:template - edit freely
"""Process rewards, by a model that is trained beside the policy, where a config asks for them."""

from collections.abc import Callable
from typing import Any

from ..run.distributed import Ranks
from ..workers.implicit_reward import ImplicitReward
from .process_checks import check_prime
from .process_rewards import ProcessRewards, sample_by_accuracy


def wants_process_rewards(config: Any) -> bool:
    """Tell whether a config asks for process rewards (PRIME)."""
    return bool(config.local.prime.enable)


def check_process_rewards(config: Any) -> None:
    """Check the settings of process rewards, if a config asks for them."""
    if wants_process_rewards(config):
        check_prime(config)


def process_rewards_of(
    config: Any, tokenizer: Any, ranks: Ranks, path: str | None, total_steps: int
) -> ProcessRewards | None:
    """Return what adds process rewards to a batch; None: they are not asked for.

    Args:
        config: the whole config.
        tokenizer: of the policy.
        ranks: this process among its peers.
        path: where the model's weights are: a checkpoint; None: the configured model.
        total_steps: of the run.
    """
    if not wants_process_rewards(config):
        return None
    return ProcessRewards(config, ImplicitReward(config, tokenizer, ranks, path, total_steps), ranks)


def accuracy_sampler(config: Any) -> Callable[..., Any] | None:
    """Return what chooses prompts by how well they are answered; None: nothing is asked for."""
    wanted = wants_process_rewards(config) and config.local.prime.filter_accuracy
    return sample_by_accuracy if wanted else None

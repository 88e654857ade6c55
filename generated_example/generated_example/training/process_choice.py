# vextract:template base/__package__/training/process_choice.py - edit freely
"""Process rewards, by a model that is trained beside the policy: none in a project that was made without them."""

from collections.abc import Callable
from typing import Any

from ..errors import ConfigError
from ..run.distributed import Ranks


def wants_process_rewards(config: Any) -> bool:
    """Tell whether a config asks for process rewards (PRIME)."""
    return bool((config.local.get("prime") or {}).get("enable"))


def check_process_rewards(config: Any) -> None:
    """Refuse a config that asks for process rewards."""
    if wants_process_rewards(config):
        raise ConfigError(
            "local.prime.enable=true (preset=prime), and this project was created without it",
            "vextract upgrade --algorithm prime, or --with prime; or choose another preset, such as rloo",
        )


def process_rewards_of(config: Any, tokenizer: Any, ranks: Ranks, path: str | None, total_steps: int) -> Any:
    """Return None: there are no process rewards."""
    return None


def accuracy_sampler(config: Any) -> Callable[..., Any] | None:
    """Return None: nothing chooses prompts by how well they are answered."""
    return None

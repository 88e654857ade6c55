# vextract:template base/__package__/training/distillation_choice.py - edit freely
"""On-policy distillation: none in a project that was made without it."""

from typing import Any

from ..errors import ConfigError
from ..run.distributed import Ranks


def check_distillation(config: Any) -> None:
    """Refuse a config that asks for a teacher."""
    if (config.get("distillation") or {}).get("enabled"):
        raise ConfigError(
            "distillation.enabled=true (preset=distill), and this project was created without it",
            "vextract upgrade --algorithm distill, or --with distillation, with verl 0.8.0 or later",
        )


def check_teachers(config: Any, tokenizer: Any, ranks: Ranks) -> Any:
    """Return None: there are no teachers."""
    return None


def distillation_of(config: Any, tokenizer: Any, ranks: Ranks, policy: Any, served: Any) -> Any:
    """Return None: nothing is learned from a teacher."""
    return None

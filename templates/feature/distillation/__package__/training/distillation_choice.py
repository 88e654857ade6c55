# vextract:template - edit freely
"""On-policy distillation, where a config asks for it."""

from typing import Any

from ..run.distributed import Ranks
from ..workers.policy import Policy
from ..workers.servers.teacher_kinds import ServedModel
from .distillation import Distillation
from .distillation_checks import check_settings, check_vocabularies, settle_toy_teacher


def check_distillation(config: Any) -> None:
    """Check the settings of distillation, if a config asks for it."""
    if config.distillation.enabled:
        check_settings(config)


def check_teachers(config: Any, tokenizer: Any, ranks: Ranks) -> dict[str, list[ServedModel]]:
    """Check, before any weights are read, that each teacher has the policy's vocabulary. Every process must call this.

    Args:
        config: the whole config; a toy policy gets a toy teacher in it, if it names none.
        tokenizer: of the policy.
        ranks: this process among its peers.

    Returns:
        What the servers of teachers have, by the teachers' names.
    """
    if not config.distillation.enabled:
        return {}
    settle_toy_teacher(config, ranks)
    return check_vocabularies(config, tokenizer, ranks)


def distillation_of(
    config: Any, tokenizer: Any, ranks: Ranks, policy: Policy, served: dict[str, list[ServedModel]]
) -> Distillation | None:
    """Have the policy learn from its teachers, if a config asks for it.

    Args:
        config: the whole config.
        tokenizer: of the policy.
        ranks: this process among its peers.
        policy: the model that is trained.
        served: what `check_teachers` has returned.
    """
    return Distillation(config, tokenizer, ranks, policy, served) if config.distillation.enabled else None

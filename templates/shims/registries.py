# vextract:template - edit freely
"""What hooks register their algorithms with, under the names that later releases of verl have for it in core_algos.

training/registries.py does the work. It builds on core_algos, which offers these functions, and so comes in late.
"""

from collections.abc import Callable
from typing import Any

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def register_adv_est(name: str) -> Decorator:
    """Return a decorator that makes a function the advantage estimator `name`."""
    from ..training import registries

    return registries.register_adv_est(name)


def register_policy_loss(name: str) -> Decorator:
    """Return a decorator that notes a policy loss under a name. This release's actor cannot be told to call it."""
    from ..training import registries

    return registries.register_policy_loss(name)


def get_adv_estimator_fn(name: str) -> Callable[..., Any]:
    """Return the advantage estimator `name`."""
    from ..training import registries

    return registries.get_adv_estimator_fn(name)


def get_policy_loss_fn(name: str) -> Callable[..., Any]:
    """Return the policy loss `name`, or else this release's only one, whose form all share."""
    from ..training import registries

    return registries.get_policy_loss_fn(name)

# vextract:template - edit freely
"""What hooks register their algorithms with, under the names that later releases of verl have for it in core_algos.

registries.py does the work. It builds on core_algos, which offers these functions, and so comes in late: what
core_algos itself registers waits for it.
"""

from collections.abc import Callable
from typing import Any

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_CORE_ALGOS = f"{__name__.rpartition('.shims.')[0]}.vendored.algorithms.core_algos"
# What waits: how it is registered, under which name, and the function.
waiting: list[tuple[str, str, Callable[..., Any]]] = []


def _by(register: str, name: str) -> Decorator:
    def decorator(function: Callable[..., Any]) -> Callable[..., Any]:
        if function.__module__ == _CORE_ALGOS:
            waiting.append((register, name, function))
            return function
        from .. import registries

        registered: Callable[..., Any] = getattr(registries, register)(name)(function)
        return registered

    return decorator


def register_adv_est(name: str) -> Decorator:
    """Return a decorator that makes a function the advantage estimator `name`."""
    return _by("register_adv_est", name)


def register_policy_loss(name: str) -> Decorator:
    """Return a decorator that notes a policy loss under a name. This release's actor cannot be told to call it."""
    return _by("register_policy_loss", name)


def get_adv_estimator_fn(name: str) -> Callable[..., Any]:
    """Return the advantage estimator `name`."""
    from .. import registries

    return registries.get_adv_estimator_fn(name)


def get_policy_loss_fn(name: str) -> Callable[..., Any]:
    """Return the policy loss `name`, or else this release's only one, whose form all share."""
    from .. import registries

    return registries.get_policy_loss_fn(name)

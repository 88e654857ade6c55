# vextract:template - edit freely
"""Reward managers by name, as later releases of verl know them: your own ones register here."""

from collections.abc import Callable
from typing import TypeVar

REWARD_MANAGER_REGISTRY: dict[str, type] = {}

Manager = TypeVar("Manager", bound=type)


def register(name: str) -> Callable[[Manager], Manager]:
    """Make a class the reward manager `name`, as a decorator.

    Raises:
        ValueError: another class has the name.
    """

    def decorator(manager: Manager) -> Manager:
        if REWARD_MANAGER_REGISTRY.setdefault(name, manager) is not manager:
            raise ValueError(f"reward manager {name!r} is registered already: {REWARD_MANAGER_REGISTRY[name]}")
        return manager

    return decorator

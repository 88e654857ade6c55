"""The reward in a project's config, under whichever names its release has, and in that of the target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from extractor.importers.config.keys import Key, Status
from extractor.importers.config.project import ProjectConfig
from extractor.importers.config.release import Target
from extractor.importers.export.registered import ManagerClass, manager_class
from extractor.importers.export.verl_interface import ManagerInterface, VerlInterface
from extractor.values.errors import UsageError

OWN = "env"
# Gives every response the score that `naive` gives it, in processes side by side.
_AS_NAIVE, _NAIVE = "prime", "naive"
_OVERLONG = ("reward.reward_kwargs.overlong_buffer_cfg", "reward_model.overlong_buffer")
_ARGUMENTS = ("reward.reward_kwargs", "reward_model.reward_kwargs")
_FUNCTION = ("reward.custom_reward_function.path", "custom_reward_function.path")
_MANAGER = ("reward.reward_manager.name", "reward_model.reward_manager")


@dataclass(frozen=True)
class RewardConfig:
    """Holds what a project's config says of the reward.

    Attributes:
        manager: Name of the reward manager.
        arguments: Further arguments of it.
        overlong: The penalty on long responses.
        function: The owner's file with a scoring function, if the config names one.
        adapted: The class of the project that an adapter hands to the release; None: the release has the manager.
    """

    manager: str
    arguments: Mapping[str, Any]
    overlong: Mapping[str, Any]
    function: str | None
    adapted: ManagerClass | None

    @classmethod
    def of(
        cls, config: ProjectConfig, project: Path, package: str, target: Target, interface: VerlInterface
    ) -> RewardConfig:
        """Read it off a config.

        Args:
            config, project, package: The project's config, its directory, and the name of its package.
            target, interface: The release.

        Raises:
            UsageError: neither the project nor the release has such a manager, or the release cannot take it.
        """
        arguments = dict(_first(config, _ARGUMENTS) or {})
        name = str(_first(config, _MANAGER) or OWN)
        key = next((key for key in _MANAGER if key in config.flat), _MANAGER[0])
        return cls(
            _NAIVE if name == _AS_NAIVE and name not in interface.managers else name,
            {name: value for name, value in arguments.items() if name not in ("overlong_buffer_cfg", "max_resp_len")},
            dict(_first(config, _OVERLONG) or {}),
            _first(config, _FUNCTION),
            _adapted(key, name, manager_class(project, package, name), target, interface),
        )

    @property
    def own(self) -> bool:
        """Tell whether an adapter hands the project's manager to the release."""
        return self.adapted is not None

    @property
    def penalises_length(self) -> bool:
        """Tell whether the penalty on long responses is on."""
        return bool(self.overlong.get("enable"))


def _adapted(
    key: str, name: str, found: ManagerClass | None, target: Target, interface: VerlInterface
) -> ManagerClass | None:
    """Return the class that needs an adapter, if one does."""
    if (found is None or not found.own) and (name in interface.managers or name == _AS_NAIVE):
        return None
    if found is None or not (found.own or target.has(f"verl/{found.path.partition('/vendored/')[2]}")):
        raise UsageError(
            f"{key}={name}: verl {target.release} has no such reward manager, and no hook registers one",
            hint=f"it has {', '.join(sorted(interface.managers))}",
        )
    if interface.manager is ManagerInterface.FUNCTION and not found.reads_texts:
        raise UsageError(
            f"{key}={name}: verl {target.release} takes functions, and no reward manager of one's own such as "
            f"{found.name}, which reads more than a response's text",
            hint="--verl 0.6.0 or later",
        )
    return found


def _first(config: ProjectConfig, names: tuple[str, ...]) -> Any:
    """Return the first of these that the config has, a value or a section."""
    for name in names:
        node: Any = config.config
        for part in name.split("."):
            node = node.get(part) if isinstance(node, Mapping) else None
        if node is not None:
            return node
    return None


def arguments_as_keys(keys: list[Key], reward: RewardConfig, interface: VerlInterface) -> list[Key]:
    """Return what becomes of the keys that are arguments of the reward manager."""
    return [_argument(key, reward, interface) for key in keys]


def _argument(key: Key, reward: RewardConfig, interface: VerlInterface) -> Key:
    short = _short(key.key)
    if short is None:
        return key
    if reward.own and interface.manager is not ManagerInterface.FUNCTION:
        reason = "adapters/settings.json, from where the adapter hands it to the reward manager"
        return Key(key.key, key.value, Status.DROPPED, reason=reason)
    about_length = short == "max_resp_len" or short.startswith("overlong_buffer_cfg.")
    if (about_length and not reward.penalises_length) or key.value in ({}, None):
        return Key(key.key, key.value, Status.DROPPED, reason="not in use")
    if reward.own and not about_length:
        reason = "adapters/settings.json, from where the adapter hands it to the scorer"
        return Key(key.key, key.value, Status.DROPPED, reason=reason)
    name = f"{interface.arguments_section}.{short}".rstrip(".")
    status = Status.ADDED if name == key.key else Status.RENAMED
    return Key(key.key, key.value, status, name, key.value, "+", "argument of the reward manager")


def _short(key: str) -> str | None:
    """Return the name of a reward manager's argument, as the manager knows it; None where the key is none."""
    for prefix in _OVERLONG:
        if key.startswith(f"{prefix}."):
            return f"overlong_buffer_cfg.{key.removeprefix(prefix + '.')}"
    for prefix in _ARGUMENTS:
        if key == prefix:
            return ""
        if key.startswith(f"{prefix}."):
            return key.removeprefix(f"{prefix}.")
    return None


def as_naive(config: ProjectConfig, reward: RewardConfig) -> dict[str, tuple[Any, str]]:
    """Return the key of a manager that the release has under another name: what it is there, and why."""
    keys = [key for key in _MANAGER if config.flat.get(key) == _AS_NAIVE != reward.manager]
    return dict.fromkeys(keys, (reward.manager, "it gives every response the score that prime gives it"))


def chosen_manager(reward: RewardConfig, interface: VerlInterface, file: str) -> dict[str, Any]:
    """Return what verl must be told to use the project's own reward manager.

    Args:
        reward, interface: The project's, and the release's.
        file: The adapter.
    """
    if not reward.own:
        return {}
    if interface.reward_section:
        found: dict[str, Any] = {
            f"{interface.reward_section}.source": "importlib",
            f"{interface.reward_section}.name": "ProjectRewardManager",
            f"{interface.reward_section}.module.path": file,
        }
        if interface.manager is ManagerInterface.CLASS:
            found["reward_model.use_reward_loop"] = False
        return found
    if interface.manager is ManagerInterface.REGISTERED:
        return {"reward_model.reward_manager": "project"}
    manager = {"reward_model.reward_manager": "dapo" if reward.penalises_length else "naive"}
    if reward.function is not None:
        return manager
    return {"custom_reward_function.path": file, "custom_reward_function.name": "compute_score", **manager}

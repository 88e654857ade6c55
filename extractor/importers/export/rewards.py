"""Read how a release and a project take rewards, and translate between them."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from extractor.importers.config.keys import REWARD_FILE, REWARD_MANAGER, Key, KeyStatus
from extractor.importers.config.project import ProjectConfig, parse_hook
from extractor.importers.config.release import ReleaseConfig
from extractor.values import readers
from extractor.values.configtree.resolve import select
from extractor.values.errors import UsageError
from extractor.values.modules import name_module

_REWARD = "verl/trainer/ppo/reward.py"
_SPMD = "verl/workers/rollout/vllm_rollout/vllm_rollout_spmd.py"
_QWEN_TOKENS = "verl/utils/tokenizer/continuous_token.py"
# Gives every response the score that `naive` gives it, in processes side by side.
AS_NAIVE, _NAIVE = "prime", "naive"
_OVERLONG = ("reward.reward_kwargs.overlong_buffer_cfg", "reward_model.overlong_buffer")
_ARGUMENTS = ("reward.reward_kwargs", "reward_model.reward_kwargs")


class ManagerInterface(str, Enum):
    """A release's interface for reward managers.

    REGISTERED: one that is registered under a name. CLASS: a class in a file. LOOP: a class in a file that scores one
    sample at a time.
    """

    REGISTERED = "registered"
    CLASS = "class"
    LOOP = "loop"


@dataclass(frozen=True)
class VerlInterface:
    """How a release takes a project's hooks.

    Attributes:
        manager: Its interface for reward managers.
        managers: The names of those that it has itself.
        spmd: Whether rollouts can run inside the workers.
        qwen_tokens: Whether its agent loops refuse a Qwen model without the tokens of Qwen's turns.
    """

    manager: ManagerInterface
    managers: frozenset[str]
    spmd: bool
    qwen_tokens: bool

    @classmethod
    def of(cls, target: ReleaseConfig) -> VerlInterface:
        """Read a release's hook interfaces from its source.

        Raises:
            UsageError: it imports no modules of a user's, so that hooks cannot register anything.
        """
        if "VERL_USE_EXTERNAL_MODULES" not in target.source.read("verl/__init__.py"):
            raise UsageError(
                f"verl {target.release}: an export needs verl 0.6.0 or later, where it registers the hooks",
                hint="in a copy of the project: vextract upgrade --to 0.6.0; then export that",
            )
        loader = target.function(_REWARD, "load_reward_manager")
        manager = ManagerInterface.REGISTERED
        if "RewardManagerBase" in loader and "num_examine" not in loader.partition(")")[0]:
            manager = ManagerInterface.LOOP
        elif "reward_manager_cfg.source" in loader:
            manager = ManagerInterface.CLASS
        loop = "experimental/reward_loop" if manager is ManagerInterface.LOOP else "workers"
        folder = f"verl/{loop}/reward_manager/"
        texts = [target.source.read(path) for path in target.source.files if re.match(rf"{folder}.*\.py$", path)]
        names = {name for text in texts for name in re.findall(r"@register\(\s*[\"']([\w-]+)[\"']", text)}
        return cls(manager, frozenset(names), target.has(_SPMD), target.has(_QWEN_TOKENS))

    @property
    def reward_section(self) -> str:
        """Return the config section for a reward manager class, or ""."""
        sections = {ManagerInterface.LOOP: "reward.reward_manager", ManagerInterface.CLASS: "reward_manager"}
        return sections.get(self.manager, "")

    @property
    def arguments_section(self) -> str:
        """Return the config section of the reward manager's arguments."""
        return "reward.reward_kwargs" if self.manager is ManagerInterface.LOOP else "reward_model.reward_kwargs"


@dataclass(frozen=True)
class ManagerClass:
    """A class of the project that is a reward manager."""

    path: str
    name: str
    own: bool

    @property
    def module(self) -> str:
        return name_module(self.path)


@dataclass(frozen=True)
class RewardConfig:
    """The reward settings of a project's config.

    Attributes:
        manager: Name of the reward manager.
        arguments: Further arguments of it.
        overlong: The penalty on long responses.
        function: The owner's file with a scoring function, if the config names one.
        adapted: The class that an adapter hands to the release; None: the release has the manager.
    """

    manager: str
    arguments: Mapping[str, Any]
    overlong: Mapping[str, Any]
    function: str | None
    adapted: ManagerClass | None

    @classmethod
    def of(
        cls, config: ProjectConfig, project: Path, package: str, target: ReleaseConfig, interface: VerlInterface
    ) -> RewardConfig:
        """Read the reward settings from a project's config.

        Raises:
            UsageError: neither the project nor the release has such a manager, or the release cannot take it.
        """
        arguments = dict(_find_first(config, _ARGUMENTS) or {})
        name = str(_find_first(config, REWARD_MANAGER) or "env")
        key = next((key for key in REWARD_MANAGER if key in config.flat), REWARD_MANAGER[0])
        return cls(
            _NAIVE if name == AS_NAIVE and name not in interface.managers else name,
            {name: value for name, value in arguments.items() if name not in ("overlong_buffer_cfg", "max_resp_len")},
            dict(_find_first(config, _OVERLONG) or {}),
            _find_first(config, REWARD_FILE),
            _find_adapted(key, name, _find_manager_class(project, package, name), target, interface),
        )

    @property
    def penalises_length(self) -> bool:
        """Tell whether the penalty on long responses is on."""
        return bool(self.overlong.get("enable"))


def _find_first(config: ProjectConfig, names: tuple[str, ...]) -> Any:
    """Return the config's first set value among some names, or None."""
    for name in names:
        with contextlib.suppress(KeyError):
            if (value := select(config.config, name)) is not None:
                return value
    return None


def _find_manager_class(project: Path, package: str, name: str) -> ManagerClass | None:
    """Find the class registered as reward manager under a name."""
    for folder in ("custom", "vendored/workers/reward_manager"):
        for path in readers.list_python_below(project, f"{package}/{folder}"):
            for node in ast.walk(parse_hook(project / path)):
                if isinstance(node, ast.ClassDef) and name in _list_registered(node):
                    return ManagerClass(path, node.name, folder == "custom")
    return None


def _list_registered(node: ast.ClassDef) -> Iterator[str]:
    """Yield the names under which decorators register a class."""
    for item in node.decorator_list:
        if isinstance(item, ast.Call) and ast.unparse(item.func).rpartition(".")[2] == "register" and item.args:
            yield from (str(word.value) for word in item.args[:1] if isinstance(word, ast.Constant))


def _find_adapted(
    key: str, name: str, found: ManagerClass | None, target: ReleaseConfig, interface: VerlInterface
) -> ManagerClass | None:
    """Return the class that needs an adapter, if one does."""
    if (found is None or not found.own) and (name in interface.managers or name == AS_NAIVE):
        return None
    if found is None or not (found.own or target.has(f"verl/{found.path.partition('/vendored/')[2]}")):
        raise UsageError(
            f"{key}={name}: verl {target.release} has no such reward manager, and no hook registers one",
            hint=f"it has {', '.join(sorted(interface.managers))}",
        )
    return found


def map_argument(key: Key, reward: RewardConfig, interface: VerlInterface) -> Key:
    """Map a key that is a reward manager argument to verl's."""
    short = _name_argument(key.key)
    if short is None:
        return key
    dropped = Key(key.key, key.value, KeyStatus.DROPPED)
    if reward.adapted:
        reason = "adapters/settings.json, from where the adapter hands it to the reward manager"
        return replace(dropped, reason=reason)
    about_length = short == "max_resp_len" or short.startswith("overlong_buffer_cfg.")
    if (about_length and not reward.penalises_length) or key.value in ({}, None):
        return replace(dropped, reason="not in use")
    name = f"{interface.arguments_section}.{short}".rstrip(".")
    status = KeyStatus.ADDED if name == key.key else KeyStatus.RENAMED
    return Key(key.key, key.value, status, name, key.value, "+", "argument of the reward manager")


def _name_argument(key: str) -> str | None:
    """Return a key's reward manager argument name, or None."""
    for prefix in _OVERLONG:
        if key.startswith(f"{prefix}."):
            return f"overlong_buffer_cfg.{key.removeprefix(prefix + '.')}"
    for prefix in _ARGUMENTS:
        if key == prefix or key.startswith(f"{prefix}."):
            return key.removeprefix(prefix).removeprefix(".")
    return None


def choose_manager(reward: RewardConfig, interface: VerlInterface, file: str) -> dict[str, Any]:
    """Return verl's settings that select the project's own reward manager."""
    if reward.adapted is None:
        return {}
    section = interface.reward_section
    if section:
        found = {
            f"{section}.source": "importlib",
            f"{section}.name": "ProjectRewardManager",
            f"{section}.module.path": file,
        }
        loop = {"reward_model.use_reward_loop": False} if interface.manager is ManagerInterface.CLASS else {}
        return {**found, **loop}
    return {"reward_model.reward_manager": "project"}

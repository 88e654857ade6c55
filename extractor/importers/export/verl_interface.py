"""Detect how a verl release takes rewards, algorithms and environments."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from extractor.importers.config.release import ReleaseConfig
from extractor.values.errors import UsageError

_REWARD = "verl/trainer/ppo/reward.py"
_SPMD = "verl/workers/rollout/vllm_rollout/vllm_rollout_spmd.py"
_QWEN_TOKENS = "verl/utils/tokenizer/continuous_token.py"


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

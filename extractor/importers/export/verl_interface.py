"""How a release of verl takes what a project brings: its reward manager, its algorithms, its environment."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from extractor.importers.config.release import ReleaseConfig

_REWARD = "verl/trainer/ppo/reward.py"
_LOOPS = "verl/experimental/agent_loop/agent_loop.py"
_SPMD = "verl/workers/rollout/vllm_rollout/vllm_rollout_spmd.py"
_QWEN_TOKENS = "verl/utils/tokenizer/continuous_token.py"


class ManagerInterface(str, Enum):
    """A release's interface for reward managers.

    FUNCTION: none of the project's, only a scoring function. REGISTERED: one that is registered under a name. CLASS: a
    class in a file. LOOP: a class in a file that scores one sample at a time.
    """

    FUNCTION = "function"
    REGISTERED = "registered"
    CLASS = "class"
    LOOP = "loop"


@dataclass(frozen=True)
class VerlInterface:
    """Says how a release takes a project's hooks.

    Attributes:
        manager: Its interface for reward managers.
        managers: The names of those that it has itself.
        spmd: Whether rollouts can run inside the workers.
        agent_loop: Whether it has agent loops.
        messages_first: Whether all that they are given is the messages.
        loop_reward: Whether they give a reward.
        qwen_tokens: Whether its agent loops refuse a Qwen model without the tokens of Qwen's turns.
        modules: Whether `import verl` imports the modules that VERL_USE_EXTERNAL_MODULES names.
    """

    manager: ManagerInterface
    managers: frozenset[str]
    spmd: bool
    agent_loop: bool
    messages_first: bool
    loop_reward: bool
    qwen_tokens: bool
    modules: bool

    @classmethod
    def of(cls, target: ReleaseConfig) -> VerlInterface:
        """Read off a release's source how it takes hooks: there is no version of these interfaces to ask for."""
        loops = target.source.read(_LOOPS) if target.has(_LOOPS) else ""
        modules = "VERL_USE_EXTERNAL_MODULES" in target.source.read("verl/__init__.py")
        loader = target.function(_REWARD, "load_reward_manager")
        manager = ManagerInterface.REGISTERED if modules else ManagerInterface.FUNCTION
        if "RewardManagerBase" in loader and "num_examine" not in loader.partition(")")[0]:
            manager = ManagerInterface.LOOP
        elif "reward_manager_cfg.source" in loader:
            manager = ManagerInterface.CLASS
        return cls(
            manager=manager,
            managers=_manager_names(target, manager, loader),
            spmd=target.has(_SPMD),
            agent_loop="agent_loop_config_path" in loops,
            messages_first="agent_loop.run(messages" in loops,
            loop_reward="reward_score:" in loops,
            qwen_tokens=target.has(_QWEN_TOKENS),
            modules=modules,
        )

    @property
    def reward_section(self) -> str:
        """Return where the config says which class the reward manager is; "" where it cannot."""
        sections = {ManagerInterface.LOOP: "reward.reward_manager", ManagerInterface.CLASS: "reward_manager"}
        return sections.get(self.manager, "")

    @property
    def arguments_section(self) -> str:
        """Return where the config has further arguments of the reward manager."""
        return "reward.reward_kwargs" if self.manager is ManagerInterface.LOOP else "reward_model.reward_kwargs"


def _manager_names(target: ReleaseConfig, manager: ManagerInterface, loader: str) -> frozenset[str]:
    """Return the names of a release's reward managers; before there was a registry its loader compared names."""
    loop = "experimental/reward_loop" if manager is ManagerInterface.LOOP else "workers"
    found = set(re.findall(r"reward_manager_name == [\"'](\w+)[\"']", loader))
    for path in target.source.files:
        if path.startswith(f"verl/{loop}/reward_manager/") and path.endswith(".py"):
            found.update(re.findall(r"@register\(\s*[\"']([\w-]+)[\"']", target.source.read(path)))
    return frozenset(found)

"""How a release of verl takes what a project brings: its reward manager, its algorithms, its environment."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from extractor.importers.config.release import Target
from extractor.importers.export.registered import manager_names

_REWARD = "verl/trainer/ppo/reward.py"
_LOOPS = "verl/experimental/agent_loop/agent_loop.py"
_MANAGERS = ("verl/workers/reward_manager", "verl/experimental/reward_loop/reward_manager")
_SPMD = "verl/workers/rollout/vllm_rollout/vllm_rollout_spmd.py"
_QWEN_TOKENS = "verl/utils/tokenizer/continuous_token.py"
# What a release's source says where it has the feature; there is no version of these interfaces to ask for.
_AGENT_LOOPS = "agent_loop_config_path"
_MESSAGES_FIRST = "agent_loop.run(messages"
_LOOP_REWARD = "reward_score:"
_MODULES = "VERL_USE_EXTERNAL_MODULES"


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
    def of(cls, target: Target) -> VerlInterface:
        """Read off a release's source how it takes hooks."""
        loops = target.source.read(_LOOPS) if target.has(_LOOPS) else ""
        manager, loader = _interface(target), target.function(_REWARD, "load_reward_manager")
        return cls(
            manager=manager,
            managers=manager_names(target, _MANAGERS[manager is ManagerInterface.LOOP], loader),
            spmd=target.has(_SPMD),
            agent_loop=_AGENT_LOOPS in loops,
            messages_first=_MESSAGES_FIRST in loops,
            loop_reward=_LOOP_REWARD in loops,
            qwen_tokens=target.has(_QWEN_TOKENS),
            modules=_reads_modules(target),
        )

    @property
    def reward_section(self) -> str:
        """Return where the release's config says which class the reward manager is; "" where it cannot."""
        return {ManagerInterface.LOOP: "reward.reward_manager", ManagerInterface.CLASS: "reward_manager"}.get(
            self.manager, ""
        )

    @property
    def arguments_section(self) -> str:
        """Return where the release's config has further arguments of the reward manager."""
        return "reward.reward_kwargs" if self.manager is ManagerInterface.LOOP else "reward_model.reward_kwargs"


def _interface(target: Target) -> ManagerInterface:
    loader = target.function(_REWARD, "load_reward_manager")
    if "RewardManagerBase" in loader and "num_examine" not in loader.partition(")")[0]:
        return ManagerInterface.LOOP
    if "reward_manager_cfg.source" in loader:
        return ManagerInterface.CLASS
    if _reads_modules(target):
        return ManagerInterface.REGISTERED
    return ManagerInterface.FUNCTION


def _reads_modules(target: Target) -> bool:
    return _MODULES in target.source.read("verl/__init__.py")

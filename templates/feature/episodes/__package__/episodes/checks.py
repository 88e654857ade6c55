# vextract:template - edit freely
"""What is checked of episodes before anything is loaded."""

import importlib
from typing import Any

from omegaconf import OmegaConf

from ..errors import ConfigError
from ..hooks import importing_hooks
from ..settings import reward_keys
from ..switches import AGENTS, TOOLS
from .tools import has_tools


def is_reward(config: Any) -> bool:
    """Tell whether environments give the reward of episodes."""
    if TOOLS and has_tools(config):
        return False
    return bool(config.actor_rollout_ref.rollout.multi_turn.enable and config.local.env.is_reward)


def check_episodes(config: Any) -> None:
    """Check the settings of episodes, and that their reward is given once.

    Raises:
        ConfigError: they contradict each other, or mean something that does not exist.
    """
    multi_turn, env = config.actor_rollout_ref.rollout.multi_turn, config.local.env
    limits = {
        "actor_rollout_ref.rollout.multi_turn.max_assistant_turns": multi_turn.max_assistant_turns,
        "actor_rollout_ref.rollout.multi_turn.max_user_turns": multi_turn.max_user_turns,
        "local.env.max_turn_tokens": env.max_turn_tokens,
        "local.env.concurrency": env.concurrency,
    }
    for key, value in limits.items():
        if value is not None and value < 1:
            raise ConfigError(f"{key} is {value}", "it must be at least 1; where the default is null, null is no limit")
    if env.timeout is not None and env.timeout <= 0:
        raise ConfigError(f"local.env.timeout is {env.timeout}", "it is in seconds; null is no limit")
    if TOOLS:
        if has_tools(config):  # no environment is played
            return
    function = f"{reward_keys.FUNCTION}.path"
    weights = f"{reward_keys.MANAGER_ARGUMENTS}.weights"
    if is_reward(config) and OmegaConf.select(config, function) and not OmegaConf.select(config, weights):
        raise ConfigError(
            f"{function} scores texts, and with local.env.is_reward the environments give the reward",
            f"local.env.is_reward=false, or weigh both: {weights} (rm is the environments')",
        )
    if AGENTS:
        if config.local.agent.program:  # no environment is played
            return
    if config.data.train_files and not env.is_reward and _is_toy(config):
        raise ConfigError(
            "custom/env_wrapper.py has the toy environment, and data.train_files has rows of something else",
            "let make_env return the environment of these rows, in which step does what tools and interactions did",
        )


def _is_toy(config: Any) -> bool:
    """Tell whether the environment is the one that the project came with."""
    with importing_hooks():
        hook = importlib.import_module("..custom.env_wrapper", __package__)
    toy = getattr(hook, "ToyArithmeticEnv", None)
    return toy is not None and type(hook.make_env(config.data.get("env") or {})) is toy

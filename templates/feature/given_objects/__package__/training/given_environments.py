# vextract:template - edit freely
"""Environments that a caller brings: what `environment` may be, and what it is used for.

A class with Gymnasium's `reset` and `step` in text (custom/env_wrapper.py says what they take and return), an object of
it, or a function that makes one. Each response has one of its own: a class or a function is called, without arguments,
or with the config's `data.env` if it needs an argument; an object is copied (`copy.deepcopy`), as it was when the
trainer was made. What `custom/` and the config say of environments does not count then, and two trainers in a process
know nothing of each other's.

- Where no train_dataset is given, and the config names no files, its states are the prompts: those that its
  `states(split, settings)` lists, or else `data.env.val_size` and `data.env.train_size` seeds for `reset`.
- Where no reward_fn is given, it scores: `reset` with the row's seed and its extra_info as options, then one `step`
  with the response. The reward is what that step gives, and its `info` is logged.
"""

from dataclasses import replace
from typing import Any

from ..data.datasets import data_section
from ..data.makers import factory_of
from ..data.rows import RowsDataset, rows_of_environment
from ..data.steps import checked_step
from ..errors import ConfigError
from ..rewards.scoring import resolved
from ..switches import EPISODES


def with_environment(config: Any, given: Any) -> Any:
    """Check the environment that is given, or that a dataset is of, and return a function that makes it in its place.

    Raises:
        ConfigError: it cannot be used, or there is nothing for it to do.
    """
    source = given.train_dataset if given.train_dataset is not None else given.val_dataset
    if given.environment is None and isinstance(source, RowsDataset) and source.environment is not None:
        if given.reward_fn is None or (EPISODES and config.actor_rollout_ref.rollout.multi_turn.enable):
            given = replace(given, environment=source.environment)
    if given.environment is None:
        return given
    if EPISODES and config.actor_rollout_ref.rollout.multi_turn.enable:
        return replace(given, environment=factory_of(given.environment))
    has_prompts = given.train_dataset is not None or config.data.train_files
    if has_prompts and given.reward_fn is not None:
        hint = "leave one of them out"
        if EPISODES:
            hint += "; or let it take turns with the model: actor_rollout_ref.rollout.multi_turn.enable=true"
        raise ConfigError(
            "an environment is given, and prompts and a reward as well: there is nothing left for it to do", hint
        )
    return replace(given, environment=factory_of(given.environment))


def prompts_of_environment(config: Any, given: Any) -> dict[str, Any]:
    """Return the rows that the environment gives, by split: those of splits that have no others."""
    if given.environment is None or given.train_dataset is not None or config.data.train_files:
        return {}
    settings = data_section(config).get("env") or {}
    splits = [split for split in ("train", "val") if getattr(given, f"{split}_dataset") is None]
    return {split: rows_of_environment(given.environment, split, settings) for split in splits}


def plays(config: Any, given: Any) -> bool:
    """Tell whether the environment that is given scores responses, each as its only action."""
    if EPISODES and config.actor_rollout_ref.rollout.multi_turn.enable:
        return False
    return given.environment is not None


class EnvironmentReward:
    """Plays a response as the only action in an environment. Arguments as verl passes them.

    Args:
        make: makes an environment.
        settings: the config's `data.env`, which it is called with.
    """

    def __init__(self, make: Any, settings: Any) -> None:
        self.make = make
        self.settings = settings

    def __call__(
        self, data_source: str, solution_str: str, ground_truth: Any, extra_info: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Score one response.

        Returns:
            `score`, the reward of the step, and the numbers and texts that the environment reports.
        """
        env, state = self.make(self.settings), dict(extra_info or {})
        resolved(env.reset(seed=state.get("env_seed"), options=state))
        result = resolved(env.step(solution_str))
        if hasattr(env, "close"):
            resolved(env.close())
        _, reward, _, _, info = checked_step(result, env)
        reported = {name: value for name, value in info.items() if isinstance(value, (int, float, str))}
        return {**reported, "score": reward}

# vextract:template - edit freely
"""Rewards that a caller brings: what a `reward_fn` may be.

    f(data_source, solution_str, ground_truth, extra_info)      verl's: a function, or an object with `__call__`
    manager(batch, return_dict=True)                            a reward manager of verl: once for the batch

A function, plain or `async`, returns a number, or a dictionary with `score` and further components, which are logged
too. `local.reward` says how it is called: in how many processes, for how long.

A reward manager returns the scores, float32 (bs, response_length), or a dictionary with `reward_tensor` and
`reward_extra_info`.

Functions of other forms, classes, and several at once: `reward_forms.py`, by `vextract add reward_forms`.

No reward_fn: what the config says; or the reward of an environment, if one is given.
"""

import inspect
from typing import Any

from ...errors import ConfigError
from ...rewards.manager import TextRewardManager
from ...rewards.scoring import CALLED, refusal, takes_batch
from ...switches import REWARD_FORMS
from ...training.rewarding import offered


if not REWARD_FORMS:

    def check_reward(reward_fn: Any) -> None:
        """Check that a reward is a manager, or can be called as verl calls a function.

        Raises:
            ConfigError: it is neither.
        """
        check_callable(reward_fn)
        if inspect.isclass(reward_fn):
            raise ConfigError(
                f"the reward is the class {reward_fn.__name__}", "give an object of it; or: vextract add reward_forms"
            )
        problem = None if takes_batch(reward_fn) else refusal(reward_fn)
        if problem is not None:
            raise ConfigError(f"the reward cannot be called: {problem}", f"{CALLED}; or: vextract add reward_forms")


def check_callable(reward_fn: Any) -> None:
    """Check that a reward is something that can be called here.

    Raises:
        ConfigError: it is not.
    """
    if hasattr(reward_fn, "run_single"):
        raise ConfigError(
            "the reward is a manager with run_single, which verl makes itself",
            "name it in the config: reward.reward_manager, with source=importlib",
        )
    if not callable(reward_fn):
        raise ConfigError(
            f"the reward is of type {type(reward_fn).__name__}, which cannot be called",
            "give one function f(data_source, solution_str, ground_truth, extra_info); "
            "several: vextract add reward_forms",
        )


def manager_of(reward_fn: Any, config: Any, tokenizer: Any) -> Any:
    """Return a reward manager that scores with what the caller has given.

    Raises:
        ConfigError: it cannot be made, or not be called in processes, as configured.
    """
    if takes_batch(reward_fn):
        return reward_fn
    try:
        settings = offered(config, TextRewardManager)
        return TextRewardManager(tokenizer, 0, reward_fn, config.data.reward_fn_key, **settings)
    except ValueError as error:
        raise ConfigError(f"the reward cannot be used: {error}", "check local.reward, and the function") from error

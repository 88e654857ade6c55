# vextract:template base/__package__/api/inputs/rewards.py - edit freely
"""Rewards that a caller brings: what a `reward_fn` may be.

    f(data_source, solution_str, ground_truth, extra_info)      verl's: a function, or an object with `__call__`
    manager(batch, return_dict=True)                            a reward manager of verl: once for the batch

A function, plain or `async`, returns a number, or a dictionary with `score` and further components, which are logged
too. `local.reward` says how it is called: in how many processes, for how long.

A reward manager, an object or a class of them, returns the scores, float32 (bs, response_length), or a dictionary with
`reward_tensor` and `reward_extra_info`. A class is made with what it names of tokenizer, num_examine, compute_score,
reward_fn_key and the settings of `local.reward`.

Functions of other forms, and several at once: `reward_forms.py`, by `vextract add reward_forms`.

No reward_fn: what the config says; or the reward of an environment, if one is given.
"""

import inspect
from types import MethodType
from typing import Any

from ...errors import ConfigError
from ...rewards.calls import CALLED, refusal, takes_batch
from ...rewards.manager import TextRewardManager
from ...training.hook_arguments import arguments_of
from ...training.rewarding import offered


def check_reward(reward_fn: Any) -> None:
    """Check that a reward is a manager, or can be called as verl calls a function.

    Raises:
        ConfigError: it is neither.
    """
    check_callable(reward_fn)
    called = method_of(reward_fn) if inspect.isclass(reward_fn) else reward_fn
    problem = None if takes_batch(called) else refusal(called)
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


def method_of(cls: type) -> Any:
    """Return what is called of the objects of a class, with `self` given.

    Raises:
        ConfigError: they cannot be called.
    """
    if "__call__" not in dir(cls) or not inspect.isfunction(cls.__call__):
        raise ConfigError(f"the reward is the class {cls.__name__}, without __call__", "give a function or a manager")
    return MethodType(cls.__call__, cls)


def manager_of(reward_fn: Any, config: Any, tokenizer: Any) -> Any:
    """Return a reward manager that scores with what the caller has given.

    Raises:
        ConfigError: it cannot be made, or not be called in processes, as configured.
    """
    if inspect.isclass(reward_fn):
        reward_fn = instance_of(reward_fn, config, tokenizer)
    if takes_batch(reward_fn):
        return reward_fn
    try:
        settings = offered(config, TextRewardManager)
        return TextRewardManager(tokenizer, 0, reward_fn, config.data.reward_fn_key, **settings)
    except ValueError as error:
        raise ConfigError(f"the reward cannot be used: {error}", "check local.reward, and the function") from error


def instance_of(cls: Any, config: Any, tokenizer: Any) -> Any:
    """Return an object of a class: a reward manager's, or one that needs no arguments."""
    known = {
        "tokenizer": tokenizer,
        "num_examine": 0,
        "compute_score": None,
        "reward_fn_key": config.data.reward_fn_key,
        **offered(config, cls),
    }
    names = arguments_of(cls)
    parameters = inspect.signature(cls).parameters.values()
    missing = [p.name for p in parameters if p.default is p.empty and p.name in names and p.name not in known]
    if missing:
        raise ConfigError(
            f"the reward is the class {cls.__name__}, which needs {', '.join(missing)}", "give an object of it"
        )
    return cls(**{name: value for name, value in known.items() if name in names})

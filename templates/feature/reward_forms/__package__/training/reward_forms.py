# vextract:template - edit freely
"""Rewards of several forms: what a `reward_fn` may be besides what `given.py` says.

A function, or an object with `__call__`, plain or `async`, told apart by the names of its arguments:

    f(data_source, solution_str, ground_truth, extra_info)      verl's: once for each sample
    f(response), f(prompt, response)                            once for each sample
    f(prompts, completions, **columns) -> list                  TRL's: once for the batch
    manager(batch, return_dict=True)                            a reward manager of verl: once for the batch

One that scores a sample returns a number, or a dictionary with `score` and further components, which are logged too. It
gets by name what it names: data_source, ground_truth, extra_info, prompt (text; of a conversation, what its messages
say), the response as solution_str, response or completion (text), and the columns of the data. One other name is the
response, two are the prompt and the response. `local.reward` says how it is called: in how many processes, for how
long.

One in TRL's form gets prompts, completions, completion_ids (lists of tokens), trainer_state, log_extra, log_metric and
the columns, as lists, those that it names or, with **kwargs, all. Where prompts are conversations (lists of messages),
completions are [{"role": "assistant", "content": ...}]; where prompts are text, they are text. (Prompts from files are
conversations.) It returns a number for each sample, or None: no score. responses are the completions as text; verl's
data_sources, solution_strs, ground_truths and extra_infos are known as well.

A class of reward managers is made with what it names of tokenizer, num_examine, compute_score, reward_fn_key and the
settings of `local.reward`; any other class without arguments.

Several of these but for managers: a list, with `reward_weights=[...]` or in pairs, [(f, 1.0), (g, 0.5)]; or a
dictionary by name. The reward is the weighted sum. Each is logged as reward/<name>/mean, its mean over the samples that
it has scored; a sample that none has scored gets 0.
"""

import inspect
from collections.abc import Mapping
from types import MethodType
from typing import Any

from ..errors import ConfigError
from ..hooks import arguments_of
from ..rewards.forms import FORMS, VERLS, Form, FormError, form_of
from ..rewards.functions import FunctionsRewardManager, Part, unique_names
from .given import Given, check_callable, manager_of, manager_settings

# Columns that every row has, whatever the data.
ALWAYS = {"data_source", "ability", "ground_truth", "extra_info"}


def check_forms(given: Given) -> None:
    """Check that the rewards that are given can be called, as far as their arguments tell.

    Raises:
        ConfigError: one cannot.
    """
    if given.reward_weights is not None and not isinstance(given.reward_fn, (list, tuple, Mapping)):
        raise ConfigError("reward_weights are given, and no list of reward functions", "give reward_fn=[...] as well")
    for name, split in (("reward_fn", "train"), ("val_reward_fn", "val")):
        reward_fn = getattr(given, name)
        dataset = getattr(given, f"{split}_dataset")
        if reward_fn is not None:
            columns = columns_of(dataset)
            parts_of(reward_fn, weights_for(given, name), None if columns is None else columns | ALWAYS)


def columns_of(value: Any) -> set[str] | None:
    """Return the names of the columns, where they can be told without reading everything; else None."""
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return set(value[0])
    names = getattr(value, "column_names", None)
    if names is None and hasattr(value, "iterrows"):
        names = value.columns
    return None if names is None or isinstance(names, Mapping) else {str(name) for name in names}


def manager_of_forms(given: Given, name: str, config: Any, tokenizer: Any) -> Any:
    """Return a reward manager that scores with what the caller has given; None where that is nothing.

    Args:
        given: what that is.
        name: of the rewards in it: reward_fn or val_reward_fn.
        config: the whole config.
        tokenizer: decodes responses.

    Raises:
        ConfigError: it cannot be called as a reward is, or not in processes, as configured.
    """
    reward_fn = getattr(given, name)
    if reward_fn is None:
        return None
    if inspect.isclass(reward_fn):
        reward_fn = _instance_of(reward_fn, config, tokenizer)
    parts = parts_of(reward_fn, weights_for(given, name), None)
    is_one = not isinstance(reward_fn, (list, tuple, Mapping))
    if parts is None or (is_one and _is_verls(parts[0].form)):
        return manager_of(reward_fn, config, tokenizer)
    steps = config.trainer.total_training_steps or 0
    settings = manager_settings(config, FunctionsRewardManager)
    try:
        return FunctionsRewardManager(tokenizer, parts, config.data.reward_fn_key, total_steps=steps, **settings)
    except ValueError as error:
        raise ConfigError(f"the reward cannot be used: {error}", "check local.reward, and the function") from error


def _is_verls(form: Form) -> bool:
    return form.kind == "sample" and set(form.names) == set(VERLS)


def weights_for(given: Given, name: str) -> Any:
    """Return the weights, where they are of these functions: there may be as many for validation, or others."""
    weights, functions = given.reward_weights, getattr(given, name)
    if name == "reward_fn" or weights is None:
        return weights
    return weights if isinstance(functions, (list, tuple, Mapping)) and len(functions) == len(weights) else None


def parts_of(reward_fn: Any, weights: Any, columns: set[str] | None) -> list[Part] | None:
    """Return the functions with their forms and weights; None: it is a reward manager."""
    names: list[str] | None = None
    if isinstance(reward_fn, Mapping):
        names, functions = [str(name) for name in reward_fn], list(reward_fn.values())
    else:
        functions = list(reward_fn) if isinstance(reward_fn, (list, tuple)) else [reward_fn]
    if not functions:
        raise ConfigError("the list of reward functions is empty", "give at least one, or leave reward_fn out")
    if all(isinstance(item, (list, tuple)) and len(item) == 2 for item in functions):
        if weights is not None:
            raise ConfigError("weights are given in pairs and as reward_weights", "leave one of them out")
        functions, weights = [item[0] for item in functions], [item[1] for item in functions]
    functions = [_callable(function) for function in functions]
    weights = _numbers([1.0] * len(functions) if weights is None else weights, names, len(functions))
    parts = []
    for name, function, weight in zip(names or unique_names(functions), functions, weights, strict=True):
        if inspect.isclass(function) and isinstance(reward_fn, (list, tuple, Mapping)):
            raise ConfigError(f"the class {function.__name__} is among several rewards", "give an object of it")
        called = _method_of(function) if inspect.isclass(function) else function
        parts.append(Part(name, function, _form(called, columns), weight))
    if any(part.form.kind == "manager" for part in parts):
        if isinstance(reward_fn, (list, tuple, Mapping)):
            raise ConfigError("a reward manager is among several rewards, and scores alone", f"use {FORMS}")
        return None
    return parts


def _numbers(weights: Any, names: list[str] | None, count: int) -> list[float]:
    if isinstance(weights, Mapping):
        weights = [weights.get(name) for name in names or ()]
    try:
        numbers = [float(weight) for weight in weights]
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the weights of the rewards are {weights!r}", "give a number for each") from error
    if len(numbers) != count:
        raise ConfigError(f"there are {count} reward functions and {len(numbers)} weights", "give a number for each")
    return numbers


def _form(function: Any, columns: set[str] | None) -> Form:
    try:
        return form_of(function, columns)
    except FormError as error:
        raise ConfigError(f"the reward cannot be called: {error}", "rename its arguments, or wrap it") from error


def _callable(value: Any) -> Any:
    """Return what is called as a reward."""
    if hasattr(value, "save_pretrained"):
        raise ConfigError(
            f"the reward is a model, a {type(value).__name__}",
            "call it in a function f(prompts, completions) -> list of numbers",
        )
    check_callable(value)
    return value


def _method_of(cls: type) -> Any:
    """Return what is called of the objects of a class, with `self` given.

    Raises:
        ConfigError: they cannot be called.
    """
    if "__call__" not in dir(cls) or not inspect.isfunction(cls.__call__):
        raise ConfigError(f"the reward is the class {cls.__name__}, without __call__", "give a function or a manager")
    return MethodType(cls.__call__, cls)


def _instance_of(cls: Any, config: Any, tokenizer: Any) -> Any:
    """Return an object of a class: a reward manager's, or one that needs no arguments."""
    known = {
        "tokenizer": tokenizer,
        "num_examine": 0,
        "compute_score": None,
        "reward_fn_key": config.data.reward_fn_key,
        **manager_settings(config, cls),
    }
    names = arguments_of(cls)
    parameters = inspect.signature(cls).parameters.values()
    missing = [p.name for p in parameters if p.default is p.empty and p.name in names and p.name not in known]
    if missing:
        raise ConfigError(
            f"the reward is the class {cls.__name__}, which needs {', '.join(missing)}", "give an object of it"
        )
    return cls(**{name: value for name, value in known.items() if name in names})

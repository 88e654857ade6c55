# vextract:template base/__package__/inputs/__init__.py - edit freely
"""What a caller of the library brings in place of what the config says; and what a `reward_fn` may be.

    f(data_source, solution_str, ground_truth, extra_info)      verl's: a function, or an object with `__call__`
    manager(batch, return_dict=True)                            a reward manager of verl: once for the batch

A function, plain or `async`, returns a number, or a dictionary with `score` and further components, which are logged
too. `local.reward` says how it is called: in how many processes, for how long.

A reward manager returns the scores, float32 (bs, response_length), or a dictionary with `reward_tensor` and
`reward_extra_info`.

Functions of other forms, classes, and several at once: `reward_forms.py`, by `vextract add reward_forms`.
"""

import inspect
from dataclasses import dataclass
from typing import Any

from omegaconf import OmegaConf

from ..errors import ConfigError
from ..hooks import arguments_of
from ..rewards.manager import TextRewardManager
from ..rewards.scoring import CALLED, refusal, takes_batch
from ..settings import reward_keys


@dataclass(frozen=True)
class Given:
    """Holds what a caller brings; None: what the config says.

    Attributes:
        train_dataset, val_dataset: prompts, see `datasets.py`.
        reward_fn, val_reward_fn: score responses, see above; validation has training's if it has no other.
        reward_weights: of several reward functions.
        environment: gives prompts, plays responses, or takes turns with the model.
        model: a causal language model of transformers, loaded already; it is trained in place.
        tokenizer: of that model.
    """

    train_dataset: Any = None
    val_dataset: Any = None
    reward_fn: Any = None
    val_reward_fn: Any = None
    reward_weights: Any = None
    environment: Any = None
    model: Any = None
    tokenizer: Any = None


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
    is_class = inspect.isclass(reward_fn)
    problem = None if is_class or takes_batch(reward_fn) else refusal(reward_fn)
    if is_class or problem is not None:
        text = f"it is the class {reward_fn.__name__}" if is_class else problem
        hint = "give an object of it" if is_class else CALLED
        raise ConfigError(f"the reward cannot be called: {text}", f"{hint}; or: vextract add reward_forms")


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


def offered(config: Any, manager: Any) -> dict[str, Any]:
    """Return the settings of the config that the constructor of a reward manager names as arguments."""
    settings = {
        **config.local.reward,
        "overlong_buffer_cfg": OmegaConf.select(config, reward_keys.OVERLONG),
        "max_resp_len": config.data.max_response_length,
    }
    if not hasattr(manager, "run_single"):  # to verl's own kind its loader gives it
        settings["config"] = config
    names = arguments_of(manager)
    return {name: value for name, value in settings.items() if name in names}

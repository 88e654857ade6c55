# vextract:template base/__package__/training/rewarding.py - edit freely
"""From the config, or from what a caller gives, to the functions that score a batch, in training and in validation.

Rewards are computed by one process, rank 0, over the global batch.
"""

import inspect
from contextlib import ExitStack
from typing import Any

from omegaconf import OmegaConf

from ..errors import ConfigError
from ..hooks import arguments_of, importing_hooks
from ..rewards.manager import TextRewardManager
from ..rewards.scoring import CALLED, refusal, source_of
from ..run.distributed import Ranks
from ..settings import reward_keys
from ..settings.setting import functions_in, nearest
from .given import Given, manager_of, manager_settings
from .reward_managers import load_manager, manager_class, registered_managers

# What a manager is offered from elsewhere, should it stand among its further arguments as well.
CONFIGURED = ("overlong_buffer_cfg", "max_resp_len")


def compares_with_truth(config: Any) -> bool:
    """Tell whether the reward compares responses with ground truths.

    A manager class of the owner's own, derived from neither verl's nor this project's, is assumed not to.
    """
    manager = registered_managers().get(str(OmegaConf.select(config, reward_keys.MANAGER)))
    known = tuple(f"{__name__.partition('.')[0]}.{folder}." for folder in ("vendored", "rewards"))
    bases = [base for base in getattr(manager, "__mro__", ()) if not inspect.isabstract(base)]
    return any(base.__module__.startswith(known) for base in bases) or not inspect.isclass(manager)


def reward_functions(config: Any, given: Given, tokenizer: Any, ranks: Ranks, around: ExitStack) -> tuple[Any, Any]:
    """Return what scores the batches of training and of validation: what is given, else the config's managers.

    A manager of the config's gets the arguments that its constructor names: verl's own (tokenizer, num_examine,
    compute_score, reward_fn_key), what stands under `reward_kwargs`, and of these: the settings under `local.reward`,
    overlong_buffer_cfg, max_resp_len (`data.max_response_length`) and config, the whole of it. reward_keys.py has the
    settings' full names.

    Args:
        config: the whole config.
        given: what the caller brings.
        tokenizer: of the policy.
        ranks: this process among its peers. Every process must call this.
        around: closes the managers at the end.

    Raises:
        ConfigError: the manager takes no such arguments, or what is given cannot be called as a reward is.
    """
    managers = [manager_of(reward_fn, config, tokenizer) for reward_fn in (given.reward_fn, given.val_reward_fn)]
    train, validation = managers
    configured = (train, train) if train is not None else _configured(config, tokenizer, ranks, around)
    return configured[0], validation or configured[1]


def _configured(config: Any, tokenizer: Any, ranks: Ranks, around: ExitStack) -> tuple[Any, Any]:
    """Return the config's managers for training and validation."""
    manager = manager_class(config)
    train, validation = _managers(config, manager, tokenizer)
    for one in (train, validation):
        around.callback(getattr(one, "close", lambda: None))
    if OmegaConf.select(config, f"{reward_keys.FUNCTION}.path") is not None:
        _check_function(train)
    return train, validation


def _check_function(manager: Any) -> None:
    """Refuse a scoring function that its manager could not call, before anything is generated."""
    is_known = isinstance(manager, TextRewardManager) and type(manager)._arguments is TextRewardManager._arguments
    if is_known and (problem := refusal(manager.compute_score)) is not None:
        raise ConfigError(f"the reward cannot be called: {problem}: {source_of(manager.compute_score)}", CALLED)


def _managers(config: Any, manager: Any, tokenizer: Any) -> list[Any]:
    """Make the managers for training and validation; say what is wrong with their arguments, or the owner's file."""
    function = reward_keys.FUNCTION
    given = OmegaConf.select(config, reward_keys.MANAGER_ARGUMENTS).items()
    arguments = {
        **manager_settings(config, manager),
        **{name: value for name, value in given if name not in CONFIGURED},
    }
    try:
        return [load_manager(config, tokenizer, count, arguments) for count in (0, 1)]
    except ConfigError:
        raise
    except (FileNotFoundError, AttributeError, RuntimeError) as error:
        path, name = (OmegaConf.select(config, f"{function}.{key}") for key in ("path", "name"))
        if path is None:
            raise
        if error.__cause__ is not None:  # the file's own
            with importing_hooks():
                raise error.__cause__ from None
        there = functions_in(path)
        is_misnamed = there and name not in there
        hint = f"{function}.name={nearest(str(name), there) or there[0]}" if is_misnamed else f"check {function}.path"
        raise ConfigError(f"cannot load {function}: {type(error).__name__}: {error}", hint) from error
    except (TypeError, ValueError) as error:
        names = sorted(arguments_of(manager) - {"tokenizer", "num_examine", "compute_score", "reward_fn_key", "**"})
        raise ConfigError(
            f"the reward manager {OmegaConf.select(config, reward_keys.MANAGER)!r}: {error}",
            getattr(error, "hint", f"{reward_keys.MANAGER_ARGUMENTS} can set {', '.join(names) or 'nothing of it'}"),
        ) from error

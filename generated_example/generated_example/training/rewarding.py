# vextract:template base/__package__/training/rewarding.py - edit freely
"""From the config to the functions that score a batch, in training and in validation.

Rewards are computed by one process, rank 0, over the global batch.
"""

import inspect
from typing import Any

from omegaconf import OmegaConf

from ..errors import ConfigError
from ..hooks import arguments_of
from ..inputs import offered
from ..rewards.manager import TextRewardManager
from ..rewards.scoring import CALLED, refusal, source_of
from ..run.distributed import Ranks
from ..settings import reward_keys
from ..settings.setting import choose_defined, functions_in
from .reward_managers import load_manager, manager_class, registered_managers

# What a manager is offered from elsewhere, should it stand among its further arguments as well.
CONFIGURED = ("overlong_buffer_cfg", "max_resp_len")
# Where verl's managers are that call a function for each response with the same arguments.
VERLS = ("reward_loop.", "reward_manager.naive", "reward_manager.dapo")


def compares_with_truth(config: Any) -> bool:
    """Tell whether the reward compares responses with ground truths.

    What a manager of the owner's does that is not derived from verl's or the project's is its own.
    """
    manager = registered_managers().get(str(OmegaConf.select(config, reward_keys.MANAGER)))
    known = tuple(f"{__name__.partition('.')[0]}.{folder}." for folder in ("vendored", "rewards"))
    bases = [base for base in getattr(manager, "__mro__", ()) if not inspect.isabstract(base)]
    return any(base.__module__.startswith(known) for base in bases) or not inspect.isclass(manager)


class Rewards:
    """The reward managers of a run: for training, and for validation.

    A manager gets the arguments that its constructor names: verl's own (tokenizer, num_examine, compute_score,
    reward_fn_key), what stands under `reward_kwargs`, and of these: the settings under `local.reward`,
    overlong_buffer_cfg, max_resp_len (`data.max_response_length`) and config, the whole of it. reward_keys.py has the
    settings' full names.

    Args:
        config: the whole config.
        tokenizer: of the policy.
        ranks: this process among its peers.

    Raises:
        ConfigError: the manager takes no such arguments.
    """

    def __init__(self, config: Any, tokenizer: Any, ranks: Ranks) -> None:
        self.tokenizer = tokenizer
        manager = manager_class(config)
        managers = _managers(config, manager, tokenizer)
        _check_function(config, managers[0])
        self.managers = managers
        self.train, self.validation = managers

    def close(self) -> None:
        """End the processes that score samples."""
        for manager in self.managers:
            getattr(manager, "close", lambda: None)()


def _managers(config: Any, manager: Any, tokenizer: Any) -> list[Any]:
    """Make the managers for training and validation; say what is wrong with their arguments, or the owner's file."""
    longest, function = config.data.max_response_length, reward_keys.FUNCTION
    overlong = OmegaConf.select(config, reward_keys.OVERLONG)
    if overlong and overlong.enable and not 0 < overlong.len <= longest:
        raise ConfigError(
            f"{reward_keys.OVERLONG}.len is {overlong.len}, and responses have at most {longest} tokens",
            f"set {reward_keys.OVERLONG}.len between 1 and {longest}, or {reward_keys.OVERLONG}.enable=false",
        )
    given = OmegaConf.select(config, reward_keys.MANAGER_ARGUMENTS).items()
    arguments = {**offered(config, manager), **{name: value for name, value in given if name not in CONFIGURED}}
    try:
        return [load_manager(config, tokenizer, count, arguments) for count in (0, 1)]
    except ConfigError:
        raise
    except (FileNotFoundError, AttributeError, RuntimeError) as error:
        path, name = (OmegaConf.select(config, f"{function}.{key}") for key in ("path", "name"))
        if path is None:
            raise
        there, cause = choose_defined(name, functions_in(path)), error.__cause__ or error
        hint = f"{function}.name={there}" if there else f"check {function}.path, and what it has"
        raise ConfigError(f"cannot load {function}: {type(cause).__name__}: {cause}", hint) from error
    except (TypeError, ValueError) as error:
        names = sorted(arguments_of(manager) - {"tokenizer", "num_examine", "compute_score", "reward_fn_key", "**"})
        raise ConfigError(
            f"the reward manager {OmegaConf.select(config, reward_keys.MANAGER)!r}: {error}",
            f"{reward_keys.MANAGER_ARGUMENTS} can set {', '.join(names) or 'nothing of it'}",
        ) from error


def _check_function(config: Any, manager: Any) -> None:
    """Refuse a function of the owner's that cannot be called, before anything is generated for it."""
    manager = getattr(manager, "manager", manager)  # within an event loop
    is_ours = isinstance(manager, TextRewardManager) and type(manager)._arguments is TextRewardManager._arguments
    is_verls = type(manager).__module__.partition(".vendored.workers.")[2].startswith(VERLS)
    is_named = OmegaConf.select(config, f"{reward_keys.FUNCTION}.path") is not None
    if not is_named or not (is_ours or is_verls):
        return
    if (problem := refusal(manager.compute_score)) is not None:
        raise ConfigError(f"the reward cannot be called: {problem}: {source_of(manager.compute_score)}", CALLED)

# vextract:template base/__package__/api/settled.py - edit freely
"""What a caller brings, checked against the config before anything is loaded; and what it decides of the config."""

from dataclasses import replace
from typing import Any

from omegaconf import OmegaConf, open_dict
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SequentialSampler, default_collate

from ..errors import ConfigError, DataError
from ..settings import reward_keys
from ..training.rewarding import Rewards
from ..vendored.data.rl_dataset import collate_fn
from .inputs.given import Given
from .inputs.rewards import check_reward, manager_of
from .inputs.rows import check_kind, files_of


def settled(config: Any, given: Given, world_size: int) -> Given:
    """Check what is given, and let the config say so where it decides something. Every process must call this.

    Args:
        config: the whole config; it is changed.
        given: what the caller brings.
        world_size: so many processes.

    Returns:
        The same, with datasets in place of data loaders.

    Raises:
        ConfigError: it cannot be used, or contradicts the config.
        DataError: the same of the data.
    """
    given = _without_loaders(config, given)
    _refuse_objects(given)
    _check_data(config, given)
    if given.train_dataset is not None and given.val_dataset is None and not config.data.val_files:
        with open_dict(config):  # there is nothing to validate on
            config.trainer.test_freq, config.trainer.val_before_train = -1, False
    _check_scores(config, given)
    _check_rewards(given)
    return given


def _refuse_objects(given: Given) -> None:
    for name in ("environment", "model", "tokenizer"):
        if getattr(given, name) is not None:
            raise ConfigError(f"{name}= is given, an object", "vextract add given_objects")


def _check_data(config: Any, given: Given) -> None:
    has_prompts = given.train_dataset is not None
    if given.val_dataset is not None and not has_prompts:
        raise DataError("a val_dataset is given, and no train_dataset", "give both, or name files in the config")
    for split in ("train", "val"):
        dataset = getattr(given, f"{split}_dataset")
        if dataset is None:
            continue
        if files_of(dataset, split) is None:
            check_kind(dataset, split)
        for key in (f"data.{split}_files", "data.custom_cls.path"):
            if OmegaConf.select(config, key):
                raise ConfigError(
                    f"{key} is {OmegaConf.select(config, key)}, and a {split}_dataset is given as well",
                    f"leave one of them out: {key}=null, or no {split}_dataset",
                )


def _check_scores(config: Any, given: Given) -> None:
    """Refuse two rewards of which one would not count."""
    if given.reward_fn is None:
        return
    what = "a reward_fn is given"
    others = {f"{reward_keys.FUNCTION}.path": "null"}
    for key, off in others.items():
        if OmegaConf.select(config, key):
            raise ConfigError(
                f"{key} is {OmegaConf.select(config, key)}, and {what}: both would score the responses",
                f"leave one of them out: {key}={off}, or no reward",
            )


def _check_rewards(given: Given) -> None:
    if given.reward_weights is not None:
        raise ConfigError("reward_weights are given, for several rewards", "vextract add reward_forms")
    for reward_fn in (given.reward_fn, given.val_reward_fn):
        if reward_fn is not None:
            check_reward(reward_fn)


def reward_functions(given: Given, rewards: Rewards, config: Any, tokenizer: Any) -> tuple[Any, Any]:
    """Return what scores the batches of training and of validation: what is given, else the config's.

    Raises:
        ConfigError: what is given cannot be called as a reward is.
    """
    train, validation = rewards.train, rewards.validation
    if given.reward_fn is not None:
        train = validation = manager_of(given.reward_fn, config, tokenizer)
    if given.val_reward_fn is not None:
        validation = manager_of(given.val_reward_fn, config, tokenizer)
    return train, validation


def _without_loaders(config: Any, given: Given) -> Given:
    """Take the datasets out of data loaders, and what else these say into the config."""
    if isinstance(given.train_dataset, DataLoader):
        loader = given.train_dataset
        shuffle = _check_loader(loader, "train")
        with open_dict(config):
            config.data.train_batch_size, config.data.shuffle = loader.batch_size, shuffle
            config.data.dataloader_num_workers = loader.num_workers
        given = replace(given, train_dataset=loader.dataset)
    if isinstance(given.val_dataset, DataLoader):
        loader = given.val_dataset
        shuffle = _check_loader(loader, "val")
        with open_dict(config):
            config.data.val_batch_size, config.data.validation_shuffle = loader.batch_size, shuffle
        given = replace(given, val_dataset=loader.dataset)
    return given


def _check_loader(loader: DataLoader[Any], split: str) -> bool:
    """Return whether a data loader shuffles.

    Raises:
        DataError: it does something that the run's own loader does not do.
    """
    if isinstance(loader.dataset, IterableDataset):
        return False  # `check_kind` says more
    advice = f"give the dataset itself as {split}_dataset: the config says how batches are made"
    if loader.batch_size is None or type(loader.sampler) not in (SequentialSampler, RandomSampler):
        kind = type(loader.batch_sampler if loader.batch_size is None else loader.sampler).__name__
        raise DataError(f"the {split} loader draws its batches by a {kind} of its own", advice)
    if getattr(loader.sampler, "replacement", False):
        raise DataError(f"the {split} loader draws prompts with replacement", advice)
    if loader.collate_fn not in (default_collate, collate_fn) and not _leaves_as_it_is(loader.collate_fn):
        name = getattr(loader.collate_fn, "__name__", type(loader.collate_fn).__name__)
        raise DataError(
            f"the {split} loader has a collate function of its own, {name}, and batches are put together by verl's",
            "do what it does in the dataset's __getitem__, which returns a row or tokens; and leave collate_fn out",
        )
    return isinstance(loader.sampler, RandomSampler)


def _leaves_as_it_is(function: Any) -> bool:
    """Tell whether a collate function returns the list of items, as `lambda items: items` does."""
    items = [object()]
    try:
        return list(function(items)) == items
    except Exception:  # of any class: it was written for other items
        return False

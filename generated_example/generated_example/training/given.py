# vextract:template base/__package__/training/given.py - edit freely
"""What a caller of `LocalPPOTrainer` brings in place of what the config says: prompts, and what scores responses.

Prompts, which `fit` takes, are rows: a list of dictionaries or a `datasets.Dataset`. Their columns:

    prompt          text, or messages: [{"role": "user", "content": "..."}]; `data.prompt_key` names another column
    ground_truth    what the reward compares with; or `solution`, `answer`, or verl's `reward_model`. Where a reward_fn
                    scores, or an environment that is given, it may be left out
    data_source     names the validation metrics of these rows; by default all are of one source
    extra_info      a dictionary, which verl's reward functions and the environments' `reset` get
    others          are kept: a reward_fn that names them gets them

A `reward_fn` is one of two:

    f(data_source, solution_str, ground_truth, extra_info)      verl's: a function, or an object with `__call__`
    manager(batch, return_dict=True)                            a reward manager of verl: once for the batch

The first returns a number, or a dictionary with `score` and further components, which are logged
too. The second returns the scores, float32 (bs, response_length), or a dictionary with `reward_tensor` and
`reward_extra_info`.

`vextract add given_objects` brings other data sets, environments, loaded models and callbacks; `reward_forms` brings
functions of other forms, classes, and several at once.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from omegaconf import OmegaConf, open_dict
from torch.utils.data import Dataset

from ..data.datasets import build_datasets, data_section, dataset_of_files, dataset_of_rows, file_list
from ..errors import ConfigError, DataError
from ..hooks import arguments_of
from ..rewards.manager import TextRewardManager
from ..rewards.scoring import CALLED, refusal, takes_batch
from ..settings import reward_keys

# Arguments of the trainer -> the feature that they take.
FEATURES = {
    "reward_weights": "reward_forms",
    **dict.fromkeys(("callbacks", "environment", "model", "tokenizer"), "given_objects"),
}


@dataclass(frozen=True)
class Given:
    """Holds what a caller brings; None: what the config says.

    Attributes:
        train_dataset, val_dataset: prompts, see above.
        reward_fn, val_reward_fn: score responses, see above; validation has training's if it has no other.
    """

    train_dataset: Any = None
    val_dataset: Any = None
    reward_fn: Any = None
    val_reward_fn: Any = None

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> "Given":
        """Return what is given as arguments.

        Raises:
            ConfigError: it takes a feature.
            TypeError: there is no such argument.
        """
        known = sorted(field.name for field in fields(cls) if not field.name.endswith("_dataset"))
        if wrong := sorted(arguments.keys() - {*known, *FEATURES}):
            takes = f"it takes {', '.join(known)}; and prompts go to fit(dataset, val_dataset)"
            raise TypeError(f"LocalPPOTrainer takes no argument {wrong[0]!r}; {takes}")
        given = {name: value for name, value in arguments.items() if value is not None}
        for name in given.keys() & FEATURES.keys() - {*known}:
            raise ConfigError(f"{name}= is given, which this project does not take", f"vextract add {FEATURES[name]}")
        return cls(**given)


def check_given(config: Any, given: Given) -> Given:
    """Check what the caller brings against the config, and turn validation off if there is nothing to validate on.

    Every process must call this.

    Args:
        config: the whole config; it is changed.
        given: what the caller brings.

    Returns:
        The same, in the form that `build_given_datasets` and `reward_functions` take.

    Raises:
        ConfigError: it contradicts the config.
        DataError: the data cannot be used.
    """
    has_prompts = given.train_dataset is not None
    if given.val_dataset is not None and not has_prompts:
        raise DataError("a val_dataset is given, and no dataset to train on", "give both, or name files in the config")
    named: list[tuple[str, str]] = []  # a key of the config, and what is given in its place
    for split, dataset in (("train", given.train_dataset), ("val", given.val_dataset)):
        if dataset is not None:
            if not isinstance(dataset, list) and not hasattr(dataset, "with_format"):
                raise DataError(
                    f"the {split} dataset is of type {type(dataset).__name__}: no list of rows, no datasets.Dataset",
                    f"files are named by data.{split}_files; for other kinds: vextract add given_objects",
                )
            named += [(key, f"{split}_dataset") for key in (f"data.{split}_files", "data.custom_cls.path")]
    if given.train_dataset is not None and given.val_dataset is None and not config.data.val_files:
        with open_dict(config):  # there is nothing to validate on
            config.trainer.test_freq, config.trainer.val_before_train = -1, False
    if given.reward_fn is not None:
        named.append((f"{reward_keys.FUNCTION}.path", "reward_fn"))
    for reward_fn in filter(None, (given.reward_fn, given.val_reward_fn)):
        check_callable(reward_fn)
    for key, what in named:
        if value := OmegaConf.select(config, key):
            hint = f"leave one of them out: {key}={'false' if value is True else 'null'}, or no {what}"
            raise ConfigError(f"{key} is {value}, and a {what} is given as well", hint)
    return given


def build_given_datasets(config: Any, tokenizer: Any, given: Given, compares: bool) -> tuple[Dataset, Dataset]:
    """Return the training and the validation dataset: those that are given, else the config's.

    Where prompts for training are given and none for validation, these stand for them, and validation is off.

    Args:
        config: the whole config.
        tokenizer: its chat template turns messages into tokens.
        given: what the caller brings.
        compares: whether the configured reward compares responses with ground truths.

    Raises:
        DataError: the data cannot be used.
        HookError: a dataset or an environment raised.
    """
    needs_truth = given.reward_fn is None
    sources = {"train": given.train_dataset, "val": given.val_dataset}
    if sources["train"] is None:
        return build_datasets(config, tokenizer, needs_truth=compares)
    found: dict[str, Any] = {}
    for split, value in sources.items():
        if value is not None:
            found[split] = dataset_of(value, split, config, tokenizer, needs_truth=needs_truth)
        elif files := file_list(config.data[f"{split}_files"]):
            found[split] = dataset_of_files(files, split, data_section(config), tokenizer)
    return found["train"], found.get("val", found["train"])


def dataset_of(value: Any, split: str, config: Any, tokenizer: Any, *, needs_truth: bool = True) -> Dataset:
    """Return a dataset of prompts as tokens from what a caller brings: see the top of this module.

    Raises:
        DataError: it is nothing that prompts are read from, or a row cannot be used.
        HookError: a dataset of the caller's raised.
    """
    rows = value if isinstance(value, list) else value.with_format(None).to_list()
    return dataset_of_rows(rows, split, data_section(config), tokenizer, needs_truth=needs_truth)


def check_callable(reward_fn: Any) -> None:
    """Check that a reward that is given can be called here.

    Raises:
        ConfigError: it cannot.
    """
    if takes_batch(reward_fn):
        return
    if not callable(reward_fn):
        problem: str | None = f"it is of type {type(reward_fn).__name__}"
    else:
        problem = f"it is the class {reward_fn.__name__}" if inspect.isclass(reward_fn) else refusal(reward_fn)
    if problem is not None:
        hint = f"{CALLED}; classes, and several: vextract add reward_forms"
        raise ConfigError(f"the reward cannot be called: {problem}", hint)


def manager_of(reward_fn: Any, config: Any, tokenizer: Any) -> Any:
    """Return a reward manager that scores with what the caller has given; None where that is nothing.

    Raises:
        ConfigError: the settings under `local.reward` do not fit it.
    """
    if reward_fn is None or takes_batch(reward_fn):
        return reward_fn
    try:
        settings = manager_settings(config, TextRewardManager)
        return TextRewardManager(tokenizer, 0, reward_fn, config.data.reward_fn_key, **settings)
    except ValueError as error:
        hint = getattr(error, "hint", "check local.reward, and the function")
        raise ConfigError(f"the reward cannot be used: {error}", hint) from error


def manager_settings(config: Any, manager: Any) -> dict[str, Any]:
    """Return the settings of the config that the constructor of a reward manager names as arguments."""
    settings = {**config.local.reward, "max_resp_len": config.data.max_response_length, "config": config}
    names = arguments_of(manager)
    return {name: value for name, value in settings.items() if name in names}

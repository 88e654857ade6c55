# vextract:template - edit freely
"""A dataset whose prompts are rows that code makes, instead of rows of files."""

from collections.abc import Callable, Mapping
from typing import Any

from ..hooks import HookError, running_hook, taken_by
from ..rewards.scoring import resolved, source_of
from ..switches import GIVEN_OBJECTS
from .datasets import RowPrompts, data_section
from .makers import factory_of, is_environment


class RowsDataset(RowPrompts):
    """Makes its rows by `make_rows`; the rest is `RowPrompts`'.

    Args:
        data_files: the split: `["train"]` or `["val"]`. With the feature given_objects it may also be an environment,
            a class or a factory of one: its states are then the prompts.
        tokenizer: its chat template turns messages into tokens.
        config: the config's `data` section; None: that of `load_config()`. A trainer uses its own instead.
        processor: for images and videos, if the model takes them.
        max_samples: so many at most; -1: all.
        split: train or val, if `data_files` is an environment (given_objects); unused otherwise.
    """

    def __init__(
        self,
        data_files: Any,
        tokenizer: Any,
        config: Any = None,
        processor: Any = None,
        max_samples: int = -1,
        *,
        split: str = "train",
    ) -> None:
        if GIVEN_OBJECTS:
            is_environments = is_environment(data_files) or callable(data_files)
            self.environment = data_files if is_environments else None  # what was given for one
            data_files = [split] if is_environments else data_files
        self.max_samples = max_samples
        if config is None:
            from ..settings import load_config

            config = data_section(load_config())
        arguments = {"tokenizer": tokenizer, "config": config, "processor": processor, "max_samples": max_samples}
        super().__init__(data_files, **taken_by(RowPrompts, arguments))  # max_samples is newer than some releases

    @staticmethod
    def make_rows(split: str, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Make the rows of a split, train or val, in verl's schema; `settings` are the config's `data.env`."""
        raise NotImplementedError

    def rows(self, settings: Any = None) -> list[dict[str, Any]]:
        """Make the rows, at most `max_samples`, with other settings for the environment than its own, if given."""
        settings = (self.config.get("env") or {}) if settings is None else settings
        split = "val" if "val" in str(self.data_files[0]) else "train"
        if GIVEN_OBJECTS and self.environment is not None:
            rows = rows_of_environment(factory_of(self.environment), split, settings)
        else:
            rows = self.make_rows(split, settings)
        return rows[: self.max_samples] if self.max_samples > 0 else rows


def rows_of_environment(make: Callable[[Any], Any], split: str, settings: Any) -> list[dict[str, Any]]:
    """Make a row of each state of an environment.

    The states are those that the environment's `states(split, settings)` lists. Without that method they are numbered
    by the seeds that `reset` makes them from: `val_size` for validation, the next `train_size` for training.

    Args:
        make: makes an environment, called with the settings.
        split: "train" or "val".
        settings: the config's `data.env`.

    Returns:
        Dicts in verl's schema. `extra_info` has what `reset` gets as options: the state, or its seed as `env_seed`. The
        prompt is what `reset` returns, and the ground truth what its `info` has under that name.

    Raises:
        HookError: the environment raised, or returned something else than Gymnasium's `reset` does.
    """

    def called(name: str, hook: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        with running_hook(f"{name} of the environment", hook):
            return resolved(hook(*arguments, **named))

    env = called("make", make, settings)
    source, starts = str(getattr(env, "name", type(env).__name__)), list[tuple[int | None, dict[str, Any]]]()
    if hasattr(env, "states"):
        source, states = called("states", env.states, split, settings)
        starts = [(None, dict(state)) for state in states]
    else:
        val_size, train_size = int(settings.get("val_size", 20)), int(settings.get("train_size", 200))
        seeds = range(val_size) if split == "val" else range(val_size, val_size + train_size)
        starts = [(seed, {"env_seed": seed}) for seed in seeds]
    rows: list[dict[str, Any]] = []
    for index, (seed, state) in enumerate(starts):
        result = called("reset", env.reset, seed=seed, options=state)
        problem = None
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Mapping)):
            problem = f"a {type(result).__name__}, not (observation, info) as Gymnasium's does"
        elif not isinstance(result[0], str | list | tuple) or not result[0]:
            problem = f"{result[0]!r:.60} as observation, not text or a list of messages"
        if problem:
            raise HookError(f"reset of the environment returned {problem}", source_of(env.reset))
        prompt, info = result
        rows.append(
            {
                "data_source": source,
                "prompt": [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt),
                "ability": "environment",
                "reward_model": {"style": "rule", "ground_truth": info.get("ground_truth")},
                "extra_info": {"index": index, "split": split, **state},
            }
        )
    if hasattr(env, "close"):
        resolved(env.close())
    return rows

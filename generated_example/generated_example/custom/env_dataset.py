# vextract:hook  yours: written once, never touched by an upgrade
"""A dataset over an environment: each of its states becomes a prompt, in verl's schema of rows.

It is used when the config names no data files. `vextract export` takes it to full verl, where it needs no change.
"""

import asyncio
import inspect
from collections.abc import Mapping
from typing import Any

from omegaconf import OmegaConf

from ..data.rows import RowsDataset
from .env_wrapper import make_env


def environment_rows(split: str, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Make a row of each state of the environment. Any environment will do; replace this where the rows need more.

    The states are those that the environment's `states(split, settings)` lists. Without that method they are numbered
    by the seeds that `reset` makes them from: `val_size` for validation, the next `train_size` for training.

    Args:
        split: "train" or "val".
        settings: the config's `data.env`.

    Returns:
        Dicts in verl's schema: data_source (names the validation metric), prompt (chat messages), ability,
        reward_model (style and ground_truth, if the environment tells it), extra_info (what an episode's `reset` gets
        as options: the state's, or its seed as `env_seed`; and the settings, for the reward manager).
    """
    env: Any = make_env(settings)
    plain = _plain(settings)
    if hasattr(env, "states"):
        source, states = env.states(split, settings)
        starts: list[tuple[int | None, dict[str, Any]]] = [(None, dict(state)) for state in states]
    else:
        source = type(env).__name__
        val_size, train_size = int(settings.get("val_size", 20)), int(settings.get("train_size", 200))
        seeds = range(val_size) if split == "val" else range(val_size, val_size + train_size)
        starts = [(seed, {"env_seed": seed}) for seed in seeds]
    rows = []
    for index, (seed, state) in enumerate(starts):
        observation, info = _settled(env.reset(seed=seed, options=state))
        messages = [{"role": "user", "content": observation}] if isinstance(observation, str) else list(observation)
        rows.append(
            {
                "data_source": source,
                "prompt": messages,
                "ability": "environment",
                "reward_model": {"style": "rule", "ground_truth": info.get("ground_truth")},
                "extra_info": {"index": index, "split": split, **state, **plain},
            }
        )
    return rows


def _settled(result: Any) -> Any:
    """Return what a method of an environment returns, waited for if it is a coroutine."""

    async def wait() -> Any:
        return await result

    return asyncio.run(wait()) if inspect.isawaitable(result) else result


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings as a column that can be written to a file, which a dictionary without keys cannot."""
    return {"env_settings": OmegaConf.to_container(OmegaConf.create(dict(settings)))} if settings else {}


class EnvDataset(RowsDataset):
    """Prompts from `environment_rows` instead of from files."""

    make_rows = staticmethod(environment_rows)

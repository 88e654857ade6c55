# vextract:hook  yours: written once, never touched by an upgrade
"""A dataset over an environment: each of its states becomes a prompt, in verl's schema of rows.

It is used when the config names no data files. `vextract export` takes it to full verl, where it needs no change.
"""

from collections.abc import Mapping
from typing import Any

from omegaconf import OmegaConf

from ..data.rows import RowsDataset, rows_of_environment
from .env_wrapper import make_env


def environment_rows(split: str, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Make a row of each state of the environment. Any environment will do; replace this where the rows need more.

    Args:
        split: "train" or "val".
        settings: the config's `data.env`.

    Returns:
        Dicts in verl's schema: data_source (names the validation metric), prompt (chat messages), ability,
        reward_model (style and ground_truth, if the environment tells it), extra_info (what `reset` gets as
        options: the state's, or its seed as `env_seed`; and the settings, for the reward manager).
    """
    rows = rows_of_environment(make_env, split, settings)
    # A column that can be written to a file, which a dictionary without keys cannot.
    plain = {"env_settings": OmegaConf.to_container(OmegaConf.create(dict(settings)))} if settings else {}
    return [{**row, "extra_info": {**row["extra_info"], **plain}} for row in rows]


class EnvDataset(RowsDataset):
    """Prompts from `environment_rows` instead of from files."""

    make_rows = staticmethod(environment_rows)

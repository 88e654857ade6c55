# vextract:template - edit freely
"""Rewards of a script for full verl under Ray: which functions they are, and what they need of a row.

A function with verl's arguments is named in verl's config as it is. Whatever else scores one sample, or a batch in
TRL's or OpenRLHF's form, and several with weights, stand in a file of the export, `adapters/given_reward.py`, which
calls them for one sample at a time: a list has one entry. Prompts and columns that they ask for are in `extra_info`.

Not handed over: objects and lambdas, reward managers, pipelines, and functions that ask for tokens, the trainer's state
or log_extra; environments take no turns there.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...data.makers import factory_of
from ...errors import ConfigError
from ...switches import EPISODES
from ...training.given import Given
from .functions import place_of

ADAPTER = "adapters/given_reward.py"
MODULE = "api/under_ray/workers.py"
PACKAGE = __name__.partition(".")[0]
# What a worker does not have.
ABSENT = ("completion_ids", "trainer_state", "log_extra", "log_metric")
# What verl itself hands to a scoring function, under any of its names.
VERLS_OWN = {"data_source", "solution_str", "ground_truth", "extra_info", "response", "completion", "responses"}
VERLS_OWN |= {"data_sources", "solution_strs", "ground_truths", "extra_infos", "labels"}
TEXT = f'''"""The rewards that a script has given. Made by its `create_trainer`."""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from {PACKAGE}.api.under_ray.workers import GivenReward  # noqa: E402

REWARD = GivenReward(json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8")))


def compute_score(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: Any = None, **further: Any
) -> dict[str, Any]:
    """Score one response, as verl calls it."""
    return REWARD(data_source, solution_str, ground_truth, extra_info)
'''


@dataclass(frozen=True)
class RayRewards:
    """The rewards of a script, as other processes find them.

    Attributes:
        settings: for `api.on_workers.GivenReward`.
        direct: file and name of the only one, if verl can call it as it is.
        needs_rows: a component that asks for more than verl hands over; "": none.
    """

    settings: Mapping[str, Any]
    direct: tuple[Path, str] | None
    needs_rows: str

    @property
    def folders(self) -> list[str]:
        """Return the folders of their files, which they may import from."""
        given = [place for split in self.settings.values() for place in split.get("functions", [*split.values()])]
        return list(dict.fromkeys(str(Path(place["file"]).parent) for place in given))

    def check_files(self, splits: Iterable[str]) -> None:
        """Refuse prompts that verl reads from files by itself, if a function asks for what it does not hand over.

        Raises:
            ConfigError: one does.
        """
        for split in splits:
            if self.needs_rows or "val" in self.settings:
                what = f"{self.needs_rows} asks for prompts or columns" if self.needs_rows else "val_reward_fn is given"
                raise ConfigError(
                    f"{what}, and verl reads the {split} dataset from files, without telling a reward of these",
                    "give rows: datasets.load_dataset(...), or a list of dictionaries",
                )

    def write(self, directory: Path) -> None:
        """Write the file that verl imports."""
        (directory / ADAPTER).write_text(TEXT, encoding="utf-8")
        (directory / ADAPTER).with_suffix(".json").write_text(json.dumps(self.settings, indent=2) + "\n", "utf-8")


def given_rewards(config: Any, given: Given) -> RayRewards | None:
    """Return the rewards that are given; None: those of the config count.

    Raises:
        ConfigError: one cannot be called, or not by another process.
    """
    if EPISODES and given.environment is not None and config.actor_rollout_ref.rollout.multi_turn.enable:
        raise ConfigError(
            "verl under Ray cannot be given an environment that takes turns",
            "write it into custom/env_wrapper.py: an export makes an agent loop of it",
        )
    if given.reward_fn is None and given.environment is None:
        if given.val_reward_fn is not None:
            raise ConfigError("a val_reward_fn is given, and no reward_fn", "give both")
        return None
    if given.environment is not None:
        factory_of(given.environment)  # it says what is wrong
    if given.reward_fn is None:
        file, name = place_of(given.environment, "environment")
        settings = json.loads(json.dumps(dict(config.data.get("env") or {}), default=str))
        found: dict[str, Any] = {"train": {"environment": {"file": str(file), "name": name, "settings": settings}}}
        return RayRewards(found, None, "")
    splits, needs_rows = {"train": given.reward_fn, "val": given.val_reward_fn}, ""
    direct: tuple[Path, str] | None = None
    found = {}
    for split, functions in splits.items():
        if functions is None:
            continue
        parts = _parts_of(functions, given, split)
        places = [place_of(part.function) for part in parts]
        if split == "train" and given.val_reward_fn is None and not isinstance(functions, (list, tuple, Mapping)):
            direct = places[0] if _is_verls(parts[0].form) else None
        found[split] = {
            "functions": [
                {"file": str(file), "name": name, "component": part.name, "weight": part.weight}
                for part, (file, name) in zip(parts, places, strict=True)
            ]
        }
        needs_rows = needs_rows or next((part.name for part in parts if set(part.form.names) - VERLS_OWN), "")
    return RayRewards(found, direct, needs_rows)


def states_of(environment: Any, config: Any) -> tuple[list[Any], list[Any] | None]:
    """Return the states of an environment as prompts: for training, and for validation."""
    from ...data.rows import rows_of_environment

    make, settings = factory_of(environment), config.data.get("env") or {}
    train, val = (rows_of_environment(make, split, settings) for split in ("train", "val"))
    return train, val or None


def with_columns(row: Mapping[str, Any], split: str, config: Any) -> dict[str, Any]:
    """Return a row in verl's schema whose `extra_info` has what rewards may ask for besides."""
    from ...data.files import GIVEN_PROMPT
    from .workers import GIVEN

    schema = {config.data.prompt_key, config.data.reward_fn_key, "ability", "reward_model", "extra_info", GIVEN_PROMPT}
    columns = {name: value for name, value in row.items() if name not in schema}
    prompt = json.loads(row[GIVEN_PROMPT])
    known = json.dumps({"split": split, "prompt": prompt, "columns": columns}, default=str)
    return {**row, "extra_info": {**row["extra_info"], GIVEN: known}}


def _parts_of(functions: Any, given: Given, split: str) -> list[Any]:
    from ...training.reward_forms import parts_of, weights_for

    parts = parts_of(functions, weights_for(given, "reward_fn" if split == "train" else "val_reward_fn"), None)
    if parts is None:
        raise ConfigError(
            "verl under Ray cannot be given a reward manager",
            "write it into custom/reward_manager.py, which an export takes",
        )
    for part in parts:
        absent = [name for name in ABSENT if name in part.form.names]
        if absent:
            raise ConfigError(
                f"{part.name} takes {', '.join(absent)}, which verl does not hand to a function that scores a sample",
                "leave it out; what it returns in a dictionary beside its score is logged",
            )
    return list(parts)


def _is_verls(form: Any) -> bool:
    from ...rewards.forms import VERLS

    return form.kind == "sample" and not form.by_position and set(form.names) == set(VERLS)
